"""What owners expect of their schedules: somebody else than the scheduler notices where it fails."""
