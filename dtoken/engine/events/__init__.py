"""From events to compiled steps: which happen where, in which order, on which sample."""
