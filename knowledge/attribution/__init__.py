"""Attribution: who failed first, why, and how sure we are. One kind of reasoning a file; each proposes hypotheses."""
