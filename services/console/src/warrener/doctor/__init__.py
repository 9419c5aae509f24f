"""`warrener doctor`: what may be wrong, tried for real, each with what to do."""
