"""The tables of version 1.0, a module for each aggregate."""
