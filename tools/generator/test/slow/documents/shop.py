"""The OpenAPI document of a small application, with what FastAPI publishes by default."""
import json
from typing import List, Optional

from fastapi import FastAPI, Response
from pydantic import BaseModel

app = FastAPI(title="Shop")


class NewUser(BaseModel):
    name: str
    active: bool = True


class User(NewUser):
    id: int


@app.get("/users/", response_model=List[User])
def list_users(skip: int = 0, limit: int = 100):
    return []


@app.post("/users/", response_model=User, status_code=201)
def create_user(user: NewUser):
    return user


@app.get("/users/{user_id}", response_model=User)
def read_user(user_id: int):
    return {}


@app.patch("/users/{user_id}", response_model=User)
def update_user(user_id: int, user: NewUser):
    return user


@app.delete("/users/{user_id}", status_code=204, response_class=Response)
def delete_user(user_id: int):
    return None


@app.get("/users/me/settings")
def read_settings(theme: Optional[str] = None):
    return {}


print(json.dumps(app.openapi()))
