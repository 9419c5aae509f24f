"""Gates: slots that jobs take before they are dispatched, and the lines before them."""
