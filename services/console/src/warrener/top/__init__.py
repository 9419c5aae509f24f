"""`warrener top`: a live view of the whole system. Readings become a view, and a view becomes a picture."""
