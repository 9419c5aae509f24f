"""The sessions of people who are signed in to the console."""
