//! What apply and undo do, and what they refuse.
