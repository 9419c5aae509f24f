"""The scheduler: decides whether and when. It accepts requests, removes repeats, and dispatches what is
due."""
