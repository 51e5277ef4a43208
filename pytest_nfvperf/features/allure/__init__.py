"""Results for Allure."""
