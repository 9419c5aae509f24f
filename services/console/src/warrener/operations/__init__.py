"""The nouns of the console, such as breakers: their models, how they are listed and read, and their verbs."""
