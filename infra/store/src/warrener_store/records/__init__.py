"""Rows as the values of their columns, and back. One file a family of tables."""
