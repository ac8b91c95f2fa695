"""The built-in contracts: each is whole, matches what it is meant for, and claims no more than was read.

`library_facts.json` holds, per service, which facts were confirmed or at least read at second hand, each with its
source; what could not be confirmed is not in it. A contract may claim only what stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker import adopted
from affidavit.broker.adopted import built_in
from affidavit.broker.batch import item_keys, outcomes
from affidavit.broker.contract import Contract, ContractSet, Standing, parse
from affidavit.broker.contract.model import HttpMatch, Idempotent, PlaceKind
from affidavit.broker.limits import Limits
from affidavit.broker.lookup import query
from affidavit.broker.signs import Answer, job_reference
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Effect, Outcome
from affidavit.resources.contracts import texts

ROOT = Path(__file__).parents[3]
FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "library_facts.json").read_text())

SERVICES = {
    "adyen": "adyen",
    "anthropic": "anthropic",
    "aws.ec2": "aws-ec2",
    "aws.iotwireless": "aws-clientrequesttoken",
    "aws.s3": "aws-s3",
    "aws.sqs": "aws-sqs-fifo",
    "azure.email": "azure",
    "azure.resource": "azure",
    "braintree": "braintree",
    "cloudflare": "cloudflare",
    "datadog": "datadog",
    "digitalocean": "digitalocean",
    "fly": "fly",
    "gcp.compute": "gcp",
    "github.actions": "github-actions-dispatch",
    "github.contents": "github-contents",
    "github.graphql": "github-graphql",
    "github.rest": "github-rest",
    "gitlab": "gitlab",
    "heroku": "heroku",
    "jira": "jira",
    "kubernetes": "kubernetes",
    "linear": "linear",
    "netlify": "netlify",
    "notion": "notion",
    "oci": "oci-registry",
    "openai": "openai",
    "pagerduty": "pagerduty-events",
    "paypal": "paypal",
    "postmark": "postmark",
    "resend": "resend",
    "sendgrid": "sendgrid",
    "shopify": "shopify",
    "slack": "slack",
    "square": "square",
    "stripe.v1": "stripe-v1",
    "stripe.v2": "stripe-v2",
    "terraform": "hcp-terraform",
    "twilio": "twilio",
    "vercel": "vercel",
}
"""The beginning of contracts' ids -> the entry of the facts."""

LINEAR = (
    "mutation IssueCreate($input: IssueCreateInput!) "
    "{ issueCreate(input: $input) { success issue { id identifier url } } }"
)
BRAINTREE = (
    "mutation ChargePaymentMethod($input: ChargePaymentMethodInput!) "
    "{ chargePaymentMethod(input: $input) { transaction { id status } } }"
)

REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", "https://api.stripe.com/v1/payment_intents", None, "stripe.v1.create"),
    ("POST", "https://api.stripe.com/v1/customers/cus_9/sources", None, "stripe.v1.create"),
    ("GET", "https://api.stripe.com/v1/charges/search?query=x", None, "stripe.v1.search"),
    ("GET", "https://api.stripe.com/v1/charges/ch_1", None, "default.read"),
    ("DELETE", "https://api.stripe.com/v1/customers/cus_9", None, "default.write"),
    ("POST", "https://api.stripe.com/v2/core/accounts", None, "stripe.v2.create"),
    ("POST", "https://api.stripe.com.evil.example/v1/payment_intents", None, "default.write"),
    ("POST", "https://api-m.paypal.com/v2/checkout/orders", None, "paypal.orders.create"),
    ("POST", "https://api-m.paypal.com/v2/checkout/orders/5O19/capture", None, "default.write"),
    ("POST", "https://api-m.paypal.com/v2/payments/authorizations/0VF5/capture", None, "paypal.payments.capture"),
    ("POST", "https://api-m.paypal.com/v2/payments/authorizations/0VF5/void", None, "paypal.payments.void"),
    ("POST", "https://api-m.paypal.com/v2/payments/captures/2GG2/refund", None, "paypal.payments.refund"),
    ("POST", "https://api-m.paypal.com/v1/catalogs/products", None, "paypal.products.create"),
    ("POST", "https://api-m.paypal.com/v1/billing/plans", None, "paypal.plans.create"),
    ("POST", "https://api-m.paypal.com/v3/vault/setup-tokens", None, "paypal.vault.create"),
    ("POST", "https://api-m.paypal.com/v3/vault/payment-tokens", None, "paypal.vault.create"),
    ("POST", "https://connect.squareup.com/v2/payments", None, "square.payments.create"),
    ("POST", "https://connect.squareup.com/v2/refunds", None, "square.refunds.create"),
    ("POST", "https://a1-co-checkout-live.adyenpayments.com/checkout/v71/payments", None, "adyen.payments.live"),
    (
        "POST",
        "https://a1-checkout-live.adyenpayments.com/checkout/v71/payments/P/refunds",
        None,
        "adyen.payments.live",
    ),
    ("POST", "https://checkout-test.adyen.com/v71/payments", None, "adyen.payments.test"),
    ("POST", "https://payments.braintree-api.com/graphql", {"query": BRAINTREE}, "braintree.charge"),
    ("POST", "https://payments.braintree-api.com/graphql", {"query": BRAINTREE + " "}, "default.write"),
    ("POST", "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json", None, "twilio.messages.create"),
    ("POST", "https://api.twilio.com/2010-04-01/Accounts/AC1/Calls.json", None, "twilio.calls.create"),
    ("GET", "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json", None, "twilio.read"),
    ("DELETE", "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/SM1.json", None, "twilio.delete"),
    ("POST", "https://api.sendgrid.com/v3/mail/send", None, "sendgrid.mail.send"),
    ("POST", "https://api.postmarkapp.com/email", None, "postmark.email.send"),
    ("POST", "https://api.postmarkapp.com/email/batch", None, "postmark.email.batch"),
    ("POST", "https://api.resend.com/emails", None, "resend.emails.send"),
    ("POST", "https://api.resend.com/emails/batch", None, "resend.emails.batch"),
    ("POST", "https://api.resend.com/domains", None, "default.write"),
    ("POST", "https://slack.com/api/chat.postMessage", None, "slack.chat"),
    ("GET", "https://slack.com/api/chat.postMessage?channel=C1&text=hi", None, "slack.chat"),
    ("GET", "https://slack.com/api/conversations.history?channel=C1", None, "default.read"),
    ("POST", "https://api.github.com/repos/octo/hello/issues", None, "github.rest.write"),
    ("GET", "https://api.github.com/repos/octo/hello/issues", None, "github.rest.read"),
    ("PUT", "https://api.github.com/repos/octo/hello/contents/docs/a.md", None, "github.contents.put"),
    ("POST", "https://api.github.com/graphql", {"query": "{ viewer { login } }"}, "github.graphql"),
    (
        "POST",
        "https://api.github.com/repos/octo/hello/actions/workflows/ci.yml/dispatches",
        {"ref": "main", "return_run_details": True},
        "github.actions.dispatch",
    ),
    (
        "POST",
        "https://api.github.com/repos/octo/hello/actions/workflows/ci.yml/dispatches",
        {"ref": "main"},
        "github.rest.write",
    ),
    ("DELETE", "https://gitlab.com/api/v4/projects/12", None, "gitlab.write"),
    ("POST", "https://api.linear.app/graphql", {"query": LINEAR, "variables": {"input": {}}}, "linear.issues.create"),
    ("POST", "https://api.linear.app/graphql", {"query": "{ viewer { id } }"}, "linear.graphql"),
    ("POST", "https://acme.atlassian.net/rest/api/3/issue", None, "jira.issues.create"),
    ("POST", "https://acme.atlassian.net/rest/api/3/search/jql", None, "jira.issues.search"),
    ("POST", "https://api.notion.com/v1/pages", None, "notion.write"),
    ("POST", "https://api.openai.com/v1/responses", None, "openai.create"),
    ("POST", "https://api.openai.com/v1/responses", {"background": True}, "openai.responses.background"),
    ("POST", "https://api.anthropic.com/v1/messages", None, "anthropic.messages.create"),
    ("POST", "https://api.anthropic.com/v1/messages/batches", None, "anthropic.batches.create"),
    ("GET", "https://api.anthropic.com/v1/messages/batches/msgbatch_1", None, "anthropic.batches.read"),
    ("GET", "https://ec2.eu-west-1.amazonaws.com/?Action=RunInstances&MaxCount=1", None, "aws.ec2.instances.run"),
    ("GET", "https://ec2.eu-west-1.amazonaws.com/?Action=TerminateInstances", None, "aws.ec2.instances.terminate"),
    ("GET", "https://ec2.eu-west-1.amazonaws.com/?Action=DescribeInstances", None, "aws.ec2.instances.describe"),
    ("GET", "https://ec2.eu-west-1.amazonaws.com/?Action=CreateVolume", None, "aws.ec2.query"),
    ("POST", "https://ec2.eu-west-1.amazonaws.com/?Action=RunInstances", None, "aws.ec2.query"),
    ("POST", "https://api.iotwireless.eu-west-1.amazonaws.com/fuota-tasks", None, "aws.iotwireless.fuota.create"),
    ("GET", "https://sqs.eu-west-1.amazonaws.com/17/jobs.fifo?Action=SendMessage", None, "aws.sqs.fifo.send"),
    ("GET", "https://sqs.eu-west-1.amazonaws.com/17/jobs?Action=SendMessage", None, "aws.sqs.query"),
    ("POST", "https://sqs.eu-west-1.amazonaws.com/", None, "aws.sqs.query"),
    ("PUT", "https://my-bucket.s3.eu-west-1.amazonaws.com/a/b.txt", None, "aws.s3.object.put"),
    ("PUT", "https://s3.eu-west-1.amazonaws.com/my-bucket/a/b.txt", None, "aws.s3.object.put.path"),
    (
        "POST",
        "https://compute.googleapis.com/compute/v1/projects/p/zones/europe-west1-b/instances",
        None,
        "gcp.compute.instances.insert",
    ),
    ("POST", "https://acme.europe.communication.azure.com/emails:send?api-version=1", None, "azure.email.send"),
    ("POST", "https://acme.communication.azure.com/emails:send?api-version=1", None, "azure.email.send.global"),
    ("PUT", "https://management.azure.com/subscriptions/s/resourceGroups/g", None, "azure.resource.put"),
    ("POST", "https://AB12.gr7.eu-west-1.eks.amazonaws.com/api/v1/namespaces/d/pods", None, "kubernetes.eks.write"),
    ("DELETE", "https://acme-1.hcp.westeurope.azmk8s.io/api/v1/namespaces/d/pods/p", None, "kubernetes.aks.write"),
    ("POST", "https://api.cloudflare.com/client/v4/zones/z/dns_records", None, "cloudflare.write"),
    ("POST", "https://api.digitalocean.com/v2/droplets", None, "digitalocean.droplets.create"),
    ("DELETE", "https://api.digitalocean.com/v2/droplets/1", None, "digitalocean.write"),
    ("GET", "https://api.digitalocean.com/v2/droplets", None, "digitalocean.read"),
    ("POST", "https://api.machines.dev/v1/apps/web/machines", None, "fly.machines.create"),
    ("POST", "https://api.machines.dev/v1/apps/web/machines/m1/stop", None, "default.write"),
    ("POST", "https://api.vercel.com/v13/deployments", None, "vercel.write"),
    ("POST", "https://api.netlify.com/api/v1/sites", None, "netlify.write"),
    ("POST", "https://api.heroku.com/apps", None, "heroku.write"),
    ("POST", "https://api.heroku.com/apps/web/builds", None, "heroku.builds.create"),
    ("POST", "https://acme.myshopify.com/admin/api/2026-10/graphql.json", None, "shopify.graphql"),
    ("PUT", "https://registry-1.docker.io/v2/acme/web/manifests/1.2", None, "oci.dockerhub.manifest.put"),
    (
        "PUT",
        f"https://registry-1.docker.io/v2/acme/web/manifests/sha256:{'a' * 64}",
        None,
        "oci.dockerhub.manifest.put.digest",
    ),
    ("PUT", f"https://ghcr.io/v2/acme/web/manifests/sha256:{'a' * 64}", None, "oci.ghcr.manifest.put.digest"),
    ("HEAD", "https://registry-1.docker.io/v2/acme/web/manifests/1.2", None, "oci.dockerhub.manifest.read"),
    ("PUT", "https://ghcr.io/v2/acme/team/web/manifests/1.2", None, "oci.ghcr.manifest.put"),
    ("GET", "https://ghcr.io/v2/acme/web/manifests/1.2", None, "oci.ghcr.manifest.read"),
    ("POST", "https://app.terraform.io/api/v2/runs", None, "terraform.write"),
    ("POST", "https://events.pagerduty.com/v2/enqueue", {"event_action": "trigger"}, "pagerduty.events.trigger"),
    ("POST", "https://events.pagerduty.com/v2/enqueue", {"event_action": "resolve"}, "default.write"),
    ("POST", "https://api.datadoghq.com/api/v1/events", None, "datadog.write"),
]


BY_HEADER = "aws.sqs.batch.send"

TOLD_BY = {
    "safe_repeat": ("retry", "mechanism"),
    "evidence": ("what_is_replayed", "same_key_other_body", "reconcile"),
}
"""Claims that any one of several facts carries; each other one has the name of its fact."""


def by_id() -> dict[str, Contract]:
    return {contract.id: contract for contract in built_in()}


IDS = sorted(by_id())


def entry(contract_id: str) -> dict[str, Any]:
    """The facts of the service that a contract is of."""
    (name,) = (SERVICES[start] for start in SERVICES if f"{contract_id}.".startswith(f"{start}."))
    found: dict[str, Any] = FACTS[name]
    return found


def claims(contract: Contract) -> Iterator[str]:
    """Which facts a contract stands on."""
    terms, verdict = contract.idempotency, contract.verdict
    bound = contract.effect_terms.idempotent
    if terms is not None or (contract.effect is Effect.WRITE and bound not in (Idempotent.NO, Idempotent.YES)):
        yield "mechanism"
    if bound is Idempotent.YES and contract.effect is Effect.WRITE:
        yield "safe_repeat"
    if terms is not None:
        if terms.retention_s is not None:
            yield "retention"
        if terms.scope != "endpoint":
            yield "scope"
        if terms.mismatch == "rejected":
            yield "same_key_other_body"
        if terms.replays_errors:
            yield "what_is_replayed"
        if terms.in_use:
            yield "concurrent_use"
    if verdict.refused or verdict.rate_limited or contract.retry.after is not None:
        yield "retry"
    if any(each.outcome is not Outcome.UNKNOWN for each in verdict.body):
        yield "body"
    if contract.reconcile or contract.correlation or contract.read:
        yield "reconcile"
    if contract.on_connection_death is not None:
        yield "evidence"
    if contract.job is not None:
        yield "async_jobs"
    if contract.batch is not None:
        yield "batch"


def test_every_file_is_a_whole_contract_named_for_its_id() -> None:
    for file, text in texts().items():
        contract = parse(text, file=file, standing=Standing.BUILT_IN)
        assert file == f"{contract.id}.toml"
        assert contract.title
        assert contract.source
        assert contract.checked == date(2026, 11, 30)
    assert len(texts()) == len(IDS) > 60


def test_no_two_can_match_one_request_at_equal_rank() -> None:
    assert ContractSet(built_in()).conflicts() == ()


def test_they_are_parsed_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = built_in()
    monkeypatch.setattr(adopted, "parse", lambda *_, **__: pytest.fail("parsed again"))
    assert built_in() is first


@pytest.mark.parametrize(("method", "url", "body", "contract_id"), REQUESTS)
def test_a_request_falls_under_the_contract_that_is_meant_for_it(
    method: str, url: str, body: Any, contract_id: str
) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    target = parse_http(url, Limits())
    assert ContractSet(built_in()).match(method, target, (), content).id == contract_id


def test_a_batch_for_a_queue_is_told_by_its_header() -> None:
    target = parse_http("https://sqs.eu-west-1.amazonaws.com/", Limits())
    headers = (("x-amz-target", "AmazonSQS.SendMessageBatch"),)
    assert ContractSet(built_in()).match("POST", target, headers, b"{}").id == BY_HEADER


def test_every_contract_is_met_by_a_request_of_the_table() -> None:
    assert {row[3] for row in REQUESTS} - {"default.read", "default.write"} | {BY_HEADER} == set(IDS)


@pytest.mark.parametrize(
    ("contract_id", "asked", "url"),
    [
        (
            "fly.machines.create",
            "https://api.machines.dev/v1/apps/web/machines",
            "https://api.machines.dev/v1/apps/web/machines?metadata.operation_id=op-1",
        ),
        (
            "oci.ghcr.manifest.put.digest",
            "https://ghcr.io/v2/acme/team/web/manifests/sha256:abc",
            "https://ghcr.io/v2/acme/team/web/manifests/sha256:abc",
        ),
    ],
)
def test_a_look_up_asks_where_the_action_went(contract_id: str, asked: str, url: str) -> None:
    terms = by_id()[contract_id].reconcile
    assert terms is not None
    made = query(terms, {"operation_id": "op-1"}, parse_http(asked, Limits()))
    assert made is not None
    assert made.url == url


@pytest.mark.parametrize(
    "contract_id", ["anthropic.batches.create", "openai.responses.background", "heroku.builds.create"]
)
def test_a_job_is_asked_for_by_its_id(contract_id: str) -> None:
    (asked,) = (url for _, url, _, met in REQUESTS if met == contract_id)
    job = by_id()[contract_id].job
    assert job is not None
    reference = job_reference(job, Answer(200, {}, b'{"id":"x_1"}'), parse_http(asked, Limits()))
    assert reference is not None
    assert (reference.job_id, reference.status_url) == ("x_1", f"{asked}/x_1")


def test_a_queues_batch_tells_its_items_apart() -> None:
    batch = by_id()[BY_HEADER].batch
    assert batch is not None
    keys = item_keys(batch, b'{"Entries":[{"Id":"a"},{"Id":"b"},{"Id":"c"}]}')
    assert keys == ("a", "b", "c")
    answer = Answer(200, {}, b'{"Successful":[{"Id":"b","MessageId":"1"}],"Failed":[{"Id":"a","SenderFault":true}]}')
    items = outcomes(batch, keys, Outcome.COMMITTED, answer)
    assert [str(item.outcome) for item in items] == ["rejected", "committed", "unknown"]


@pytest.mark.parametrize("contract_id", IDS)
def test_none_claims_more_than_was_read(contract_id: str) -> None:
    contract, text, facts = by_id()[contract_id], texts()[f"{contract_id}.toml"], entry(contract_id)["facts"]
    for claim in claims(contract):
        fact = next((facts[name] for name in TOLD_BY.get(claim, (claim,)) if name in facts), None)
        assert fact is not None, f"{contract_id} claims {claim}, which nobody confirmed"
        assert fact["status"] in ("confirmed", "secondary")
        assert not fact.get("none"), f"{contract_id} claims {claim}, and the source says that there is none"
        assert fact["source"] in text, f"{contract_id} does not say where {claim} was read: {fact['source']}"


@pytest.mark.parametrize("contract_id", [id_ for id_ in IDS if by_id()[id_].idempotency is not None])
def test_a_key_is_where_it_was_read_to_be_and_is_kept_no_longer(contract_id: str) -> None:
    terms, facts = by_id()[contract_id].idempotency, entry(contract_id)
    assert terms is not None
    assert terms.at.name.lower() == facts["key"].lower()
    if terms.retention_s is not None:
        assert terms.retention_s in facts["retention_s"]
    assert facts["mismatch_rejected"] or terms.mismatch == "ignored"
    assert terms.replays_errors is facts["replays_errors"]


def test_absence_in_a_look_up_never_settles_by_a_built_in_contract() -> None:
    """Nowhere was it read that a look-up is exact, complete and fresh."""
    look_ups = [contract.reconcile for contract in built_in() if contract.reconcile]
    assert look_ups
    assert all(look_up.absent.means is Outcome.UNKNOWN for look_up in look_ups)


def test_none_repeats_by_itself_reaches_a_private_address_or_covers_a_foreign_host() -> None:
    for contract in built_in():
        assert not contract.retry.automatic
        match = contract.match
        assert isinstance(match, HttpMatch)
        assert match.url.scheme == "https"
        assert not match.private
        # The registrable part is literal: a star there would let anybody's host make these promises.
        assert all(label.literal for label in match.url.host[-2:])


@pytest.mark.parametrize(
    ("place", "ids"),
    [
        (PlaceKind.HEADER, {"stripe.v1.create", "paypal.orders.create", "azure.email.send"}),
        (PlaceKind.POINTER, {"square.payments.create", "braintree.charge", "pagerduty.events.trigger"}),
        (PlaceKind.QUERY, {"aws.ec2.instances.run", "gcp.compute.instances.insert", "aws.sqs.fifo.send"}),
    ],
)
def test_keys_stand_in_headers_bodies_and_queries(place: PlaceKind, ids: set[str]) -> None:
    assert ids <= {c.id for c in built_in() if c.idempotency is not None and c.idempotency.at.kind is place}


def test_one_host_has_as_many_retentions_as_its_routes() -> None:
    kept = {c.idempotency.retention_s for c in built_in() if c.id.startswith("paypal.") and c.idempotency is not None}
    assert kept == {3 * 3600, 6 * 3600, 72 * 3600, 45 * 86400}


def test_s3_is_idempotent_only_with_its_condition() -> None:
    contract = by_id()["aws.s3.object.put"]
    assert contract.idempotent() is False
    assert contract.idempotent(["if-none-match"]) is True


async def test_they_are_in_force_once_the_vault_is_open_and_give_way(world: Any) -> None:
    broker, url = world.broker, "https://api.stripe.com/v1/payment_intents"
    session = world.session()

    async def explained() -> tuple[str, str, list[str]]:
        found = await broker.agent.contract_explain(session, method="POST", url=url)
        return found["contract"]["id"], found["contract"]["standing"], found["missing"]

    listed = await broker.agent.contract_list(session)
    assert {each["contract"]["id"] for each in listed["contracts"]} == set(IDS)
    assert await explained() == ("stripe.v1.create", "built_in", ["lookup"])

    own = '[match]\nkind = "http"\nmethod = ["POST"]\nurl = "https://api.stripe.com/v1/**"\n[effect]\nkind = "write"\n'
    await world.adopt(f'id = "mine"\n{own}', "mine.toml")
    assert (await explained())[:2] == ("mine", "adopted")


async def test_an_adopted_contract_of_its_id_replaces_it(world: Any) -> None:
    own = '[match]\nkind = "http"\nmethod = ["POST"]\nurl = "https://api.stripe.com/v1/refunds"\n'
    await world.adopt(f'id = "stripe.v1.create"\n{own}[effect]\nkind = "write"\n', "stripe.toml")
    contracts = world.broker.core.contracts.set
    assert contracts.get("stripe.v1.create").standing is Standing.ADOPTED
    target = parse_http("https://api.stripe.com/v1/payment_intents", Limits())
    assert contracts.match("POST", target, (), b"").id == "default.write"


def test_the_manual_lists_each_of_them() -> None:
    manual = (ROOT / "docs/contract-library.md").read_text()
    assert [contract_id for contract_id in IDS if f"`{contract_id}`" not in manual] == []
