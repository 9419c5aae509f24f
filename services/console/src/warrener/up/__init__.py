"""`warrener up`: a whole Warrener in one terminal."""
