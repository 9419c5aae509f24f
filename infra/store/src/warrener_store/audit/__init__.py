"""The record of what people have done through the console."""
