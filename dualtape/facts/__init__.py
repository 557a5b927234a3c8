"""What is known of an operation from shapes alone: the columns of facts and how they are counted. Knows no rows."""
