//! Every decision of Punctual.
