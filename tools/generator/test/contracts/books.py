"""A service in the style of FastAPI's tutorials, whose own generator emits the contract."""
from datetime import datetime
from uuid import UUID

import json
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field


class BookBase(BaseModel):
    title: str = Field(min_length=1, max_length=200)
    subtitle: str | None = None
    pages: int = Field(gt=0, default=1)
    price: float | None = None
    genre: str = "novel"


class BookCreate(BookBase):
    pass


class BookUpdate(BaseModel):
    title: str | None = None
    subtitle: str | None = None
    pages: int | None = None


class Book(BookBase):
    id: int
    created_at: datetime


class ReviewCreate(BaseModel):
    stars: int = Field(ge=1, le=5)
    text: str | None = None


class Review(ReviewCreate):
    id: UUID
    book_id: int


app = FastAPI(title="Books")


@app.get("/books/", response_model=list[Book])
def read_books(skip: int = 0, limit: int = Query(default=100, le=100), genre: str | None = None): ...


@app.post("/books/", response_model=Book, status_code=201)
def create_book(book: BookCreate): ...


@app.get("/books/{book_id}", response_model=Book)
def read_book(book_id: int): ...


@app.put("/books/{book_id}", response_model=Book)
def replace_book(book_id: int, book: BookCreate): ...


@app.patch("/books/{book_id}", response_model=Book)
def update_book(book_id: int, book: BookUpdate): ...


@app.delete("/books/{book_id}", status_code=204)
def delete_book(book_id: int): ...


@app.post("/books/{book_id}/reviews", response_model=Review, status_code=201)
def create_review(book_id: int, review: ReviewCreate): ...


@app.get("/books/{book_id}/reviews", response_model=list[Review])
def read_reviews(book_id: int): ...


@app.delete("/books/{book_id}/reviews/{review_id}", status_code=204)
def delete_review(book_id: int, review_id: UUID): ...


if __name__ == "__main__":
    print(json.dumps(app.openapi()))
