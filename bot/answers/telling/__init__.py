"""One kind of question a function: a matter and what was asked in, a reply out."""
