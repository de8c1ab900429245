"""Surveys that run again by themselves."""
