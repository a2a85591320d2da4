"""Content that needs a parser or a service: documents, web pages, outlines, the code index."""
