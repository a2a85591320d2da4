"""Models of Amazon Bedrock, Vertex AI and Azure, with the logins of these clouds."""
