"""What the command does about schedules beside single wishes: backfills, files of schedules, imports."""
