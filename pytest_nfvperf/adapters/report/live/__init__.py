"""Charts as data, which the page draws in the browser: to hover, to zoom, to hide a series."""
