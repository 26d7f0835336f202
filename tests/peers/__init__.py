"""Test suites of other libraries as writers: what their tests write, forebay reads, and the values are compared."""
