"""Access to the console: principals, their roles, and what a role allows."""
