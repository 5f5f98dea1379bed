"""The inner problem of each outer step: scaling, Newton's method, Dykstra's algorithm."""
