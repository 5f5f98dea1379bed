"""The pages of the review and the server behind them."""
