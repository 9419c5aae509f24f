"""Charts as SVG made at the server: pure functions from facts to pictures, without input, output or a clock.

A `Picture` holds the drawing and a table of the same facts. Its looks are the classes of `charts.css`.
"""
