"""An incident as a case for an accuracy suite: evidence with the names of a site taken out, and what was true."""
