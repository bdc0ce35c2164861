"""Constants, step sizes and rates of the methods (Hendrikx 2022)."""
