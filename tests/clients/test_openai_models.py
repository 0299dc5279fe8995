"""Models with the official client."""

import openai
import pytest
from conftest import SMOLLM2


def test_the_list_has_the_model_and_its_aliases(client):
    names = [model.id for model in client.models.list()]
    assert names[0] == SMOLLM2
    assert "gpt-4o-mini" in names


def test_a_model_has_every_member_that_the_client_reads(client):
    model = client.models.list().data[0]
    assert model.object == "model"
    assert model.owned_by
    assert model.created > 1_600_000_000


@pytest.mark.parametrize("name", [SMOLLM2, "gpt-4o-mini"])
def test_a_model_can_be_asked_for_by_name(client, name):
    assert client.models.retrieve(name).object == "model"


def test_another_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-99")
    assert "gpt-99" in str(caught.value)
