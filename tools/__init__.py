"""What maintains the documents: generated parts of pages, pictures, and hooks of the site's build."""
