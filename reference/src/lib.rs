//! What the documents say: the operators and models of MiniMax-M2.7 and M3, their error bounds, and nothing else.
