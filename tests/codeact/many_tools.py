"""Two hundred tools of the kinds that companies have, as their servers name them, and what people ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from actbox.tools import Tool, Toolset

# group: how its names are written, then the things with what they are
THINGS: dict[str, tuple[str, dict[str, str]]] = {
    "crm": (
        "crm_{verb}_{thing}",
        {
            "contact": "a person at a customer, with email address and phone number",
            "company": "a customer organisation, with industry and size",
            "deal": "a sales opportunity in the pipeline, with stage and amount",
            "note": "a free text remark about a contact or company",
        },
    ),
    "billing": (
        "billing_{verb}_{thing}",
        {
            "invoice": "a bill for a customer, with line items, tax and due date",
            "subscription": "a recurring plan that a customer pays for monthly or yearly",
            "coupon": "a discount code with percentage and expiry",
            "payment_method": "a stored card or bank account of a customer",
        },
    ),
    "calendar": (
        "calendar.{verb}_{thing}",
        {
            "event": "a meeting or appointment, with attendees, start and end",
            "reminder": "a notice at a point in time",
        },
    ),
    "github": (
        "github-{verb}-{thing}",
        {
            "issue": "a bug report or feature request of a repository",
            "pull-request": "a proposed change of a repository's code, to be reviewed and merged",
            "release": "a tagged version of a repository with its notes",
            "branch": "a line of development of a repository",
        },
    ),
    "support": (
        "{verb}Support{Thing}",
        {
            "ticket": "a customer's question or complaint, with priority and status",
            "macro": "a canned reply that agents send again and again",
        },
    ),
    "hr": (
        "hr_{verb}_{thing}",
        {
            "employee": "a person who works here, with role, manager and start date",
            "leave_request": "days off that somebody asks for, such as vacation or sick leave",
            "job_posting": "an open position that candidates apply for",
        },
    ),
    "inventory": (
        "inventory_{verb}_{thing}",
        {
            "product": "an article that we sell, with SKU, price and description",
            "warehouse": "a place where stock lies",
            "purchase_order": "goods that were ordered from a supplier",
        },
    ),
    "cloud": (
        "cloud.{verb}{Thing}",
        {
            "instance": "a virtual machine, with image, size and region",
            "bucket": "a container of objects in storage",
            "secret": "a password, token or key in the vault",
        },
    ),
    "cms": (
        "cms_{verb}_{thing}",
        {
            "article": "a page of the blog, with title, body and author",
            "asset": "an image or video in the media library",
        },
    ),
}
VERBS = {
    "create": ("Create {what}.", ("{thing}", "idempotency_key")),
    "get": ("Fetch one {bare} by its id: {what}.", ("{thing}_id",)),
    "list": ("List every {bare}, page by page: {what}.", ("page", "per_page", "order_by")),
    "update": ("Change fields of an existing {bare}: {what}.", ("{thing}_id", "changes")),
    "delete": ("Remove a {bare} for good: {what}.", ("{thing}_id",)),
}
# group: name | description | parameters
SINGLE: dict[str, str] = {
    "crm": """
        crm_find_contact | Look a person up by name, email or phone, also with spelling mistakes. | text
        crm_merge_contacts | Join two duplicate people records into one. | keep_id, drop_id
        crm_log_call | Record that somebody was phoned, with duration and outcome. | contact_id, minutes, outcome
        crm_move_deal_stage | Advance an opportunity to another stage of the pipeline. | deal_id, stage
        crm_forecast_revenue | Estimate the revenue of a quarter from open opportunities. | quarter""",
    "billing": """
        billing_send_invoice | Email the bill as a PDF to the customer. | invoice_id
        billing_void_invoice | Cancel a bill that was sent by mistake. | invoice_id, reason
        billing_refund_payment | Give money back to the customer, all of it or part. | payment_id, amount
        billing_charge_card | Take a payment from the stored card at once. | customer_id, amount, currency
        billing_list_overdue | Bills whose due date is past and which nobody has paid. | days
        billing_calculate_tax | Compute VAT or sales tax for an amount and a country. | amount, country
        billing_pause_subscription | Suspend a recurring plan without ending it. | subscription_id, until""",
    "calendar": """
        calendar.find_free_slot | Find times when all attendees are available. | attendees, minutes
        calendar.invite_attendee | Add a guest to a meeting and send the invitation. | event_id, email
        calendar.reschedule_event | Move a meeting to another time. | event_id, start
        calendar.working_hours | When somebody works, by weekday. | person""",
    "github": """
        github-merge-pull-request | Merge a reviewed change into its base branch. | number, method
        github-search-code | Search source code across repositories. | query, language
        github-add-comment | Comment on an issue or a pull request. | number, body
        github-get-file-contents | Read a file of a repository at a commit. | path, ref
        github-run-workflow | Start a CI workflow by hand. | workflow, ref
        github-list-commits | The history of a branch. | branch, since""",
    "support": """
        assignSupportTicket | Give a ticket to an agent of the team. | ticket_id, agent_id
        escalateSupportTicket | Raise the priority and page the engineer on duty. | ticket_id, reason
        replyToSupportTicket | Answer the customer in the thread of the ticket. | ticket_id, body
        getCustomerSatisfaction | The CSAT score over a period. | since, until""",
    "hr": """
        hr_approve_leave | Say yes to days off that somebody asked for. | leave_request_id
        hr_org_chart | Who reports to whom, as a tree. | root_employee_id
        hr_run_payroll | Compute and pay the salaries of a month. | month
        hr_leave_balance | How many vacation days an employee has left. | employee_id""",
    "inventory": """
        inventory_check_stock | How many units of an article are on hand, by warehouse. | sku
        inventory_transfer_stock | Move units from one warehouse to another. | sku, source, target, units
        inventory_reorder_point | The level below which an article is ordered again. | sku
        inventory_scan_barcode | Find the article of an EAN or UPC code. | code""",
    "cloud": """
        cloud.restartInstance | Reboot a virtual machine. | instance_id
        cloud.getMetrics | CPU, memory and disk figures of a machine over time. | instance_id, metric
        cloud.tailLogs | The last lines that a service has logged. | service, lines
        cloud.rotateSecret | Replace a password or key in the vault by a new one. | secret_id
        cloud.estimateCost | What the account will be charged this month. | month
        cloud.scaleService | Change how many replicas of a service run. | service, replicas""",
    "cms": """
        cms_publish_article | Make a draft page visible to everybody. | article_id
        cms_schedule_article | Publish a page at a later time. | article_id, at
        cms_resize_image | Scale a picture to a width and height. | asset_id, width, height""",
    "files": """
        files_read_text | Read a text file. | path, encoding
        files_write_text | Write text into a file, replacing what was there. | path, text
        files_list_folder | Names, sizes and dates in a directory. | path
        files_copy | Copy a file or a directory. | source, target
        files_move | Move or rename a file. | source, target
        files_delete | Delete a file. | path
        files_search | Find files whose contents match an expression. | pattern, folder
        files_zip | Pack files into a zip archive. | paths, target
        files_unzip | Unpack an archive. | archive, target
        files_checksum | The SHA-256 of a file. | path
        files_share_link | A URL by which anybody can download a file. | path, expires""",
    "weather": """
        weather_current | Temperature, wind and humidity now at a place. | city
        weather_forecast | The weather of the next days at a place. | city, days
        weather_history | What the weather was on a day in the past. | city, date
        weather_alerts | Storm and flood warnings of a region. | region
        weather_air_quality | Fine dust and ozone at a place. | city
        weather_sun_times | Sunrise and sunset of a day. | city, date""",
    "mail": """
        mail_send | Send an email. | to, subject, body, attachments
        mail_search | Search the inbox. | query, folder
        mail_read | Read one message with its attachments. | message_id
        mail_reply | Answer a message, to its sender or to all. | message_id, body
        mail_forward | Pass a message on to somebody else. | message_id, to
        mail_archive | Take a message out of the inbox. | message_id
        mail_create_filter | A rule that sorts incoming messages. | condition, action
        mail_unsubscribe | Leave a mailing list. | message_id""",
    "chat": """
        slack_post_message | Post a message in a channel or to a person. | channel, text
        slack_list_channels | The channels of the workspace. | include_archived
        slack_upload_file | Put a file into a channel. | channel, path
        slack_add_reaction | React to a message with an emoji. | channel, timestamp, emoji
        slack_set_status | Set your own status text and emoji. | text, emoji
        slack_search_messages | Find what was said in any channel. | query""",
    "maps": """
        maps_geocode | Coordinates of a street address. | address
        maps_reverse_geocode | The street address at a latitude and longitude. | latitude, longitude
        maps_directions | The route between two places, by car, bike or foot. | origin, destination, mode
        maps_distance_matrix | Travel times between many places. | origins, destinations
        maps_nearby_places | Restaurants, shops or stations around a point. | latitude, longitude, kind
        maps_time_zone | The time zone of a point. | latitude, longitude""",
    "finance": """
        finance_exchange_rate | The rate between two currencies. | base, quote
        finance_convert_currency | Convert an amount of money into another currency. | amount, source, target
        finance_stock_quote | The price of a share at the exchange now. | symbol
        finance_stock_history | Daily prices of a share. | symbol, since
        finance_list_transactions | Bookings of a bank account. | account, since
        finance_transfer_money | Send money from one bank account to another. | source, target, amount
        finance_account_balance | How much money an account holds. | account
        finance_budget_report | Spending against plan by department. | year""",
    "text": """
        text_translate | Translate a text into another language. | text, language
        text_summarize | Shorten a long text to its main points. | text, sentences
        text_detect_language | Tell which language a text is in. | text
        text_sentiment | Tell whether a text is positive or negative. | text
        text_extract_entities | Names of people, places and organisations in a text. | text
        text_ocr | Read the letters in a scanned picture. | image""",
    "": """
        turn_on | Switch a device at home on. | device
        turn_off | Switch a device at home off. | device
        set_thermostat | Set the temperature of a room. | room, celsius
        generate_uuid | A random unique identifier. |
        current_time | What time it is now. | zone
        query_database | Run a read-only SQL query on the data warehouse. | sql
        describe_table | Columns and types of a table of the data warehouse. | table""",
}


def _rows() -> Iterator[tuple[str, str, str, list[str]]]:
    for group, (style, things) in THINGS.items():
        for thing, what in things.items():
            for verb, (sentence, parameters) in VERBS.items():
                bare = thing.replace("_", " ").replace("-", " ")
                name = style.format(verb=verb, thing=thing, Thing=thing.title())
                field = thing.replace("-", "_")
                yield group, name, sentence.format(what=what, bare=bare), [p.format(thing=field) for p in parameters]
    for group, text in SINGLE.items():
        for line in text.strip().splitlines():
            name, description, parameters = (part.strip() for part in line.split("|"))
            yield group, name, description, [part.strip() for part in parameters.split(",") if part]


def _tool(name: str, description: str, parameters: list[str]) -> Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter: {"type": "string"} for parameter in parameters},
        "required": parameters[:1],
    }
    return Tool.from_schema(name, description, schema, lambda **arguments: arguments)


def many_tools() -> tuple[Toolset, dict[str, str]]:
    """Return the toolset and the group of each tool by its name."""
    rows = list(_rows())
    toolset = Toolset([_tool(name, description, parameters) for _, name, description, parameters in rows])
    return toolset, {name: group for group, name, _, _ in rows if group}


MEANT = {
    "find a customer by email": "crm_find_contact",
    "duplicate contacts": "crm_merge_contacts",
    "log a phone call": "crm_log_call",
    "add a new company": "crm_create_company",
    "sales pipeline stage": "crm_move_deal_stage",
    "revenue forecast for next quarter": "crm_forecast_revenue",
    "create invoices": "billing_create_invoice",
    "email an invoice to the customer": "billing_send_invoice",
    "unpaid overdue invoices": "billing_list_overdue",
    "refund": "billing_refund_payment",
    "refunding a payment": "billing_refund_payment",
    "charge a credit card": "billing_charge_card",
    "VAT": "billing_calculate_tax",
    "pause a subscription": "billing_pause_subscription",
    "list discount codes": "billing_list_coupon",
    "free time slot for a meeting": "calendar.find_free_slot",
    "create a calendar meeting": "calendar.create_event",
    "invite somebody to an event": "calendar.invite_attendee",
    "rescheduling": "calendar.reschedule_event",
    "open a github issue": "github-create-issue",
    "merge PR pull request": "github-merge-pull-request",
    "list pull requests": "github-list-pull-request",
    "search source code": "github-search-code",
    "run CI workflow": "github-run-workflow",
    "commit history of a branch": "github-list-commits",
    "escalate ticket to on-call engineer": "escalateSupportTicket",
    "assign ticket": "assignSupportTicket",
    "customer satisfaction score": "getCustomerSatisfaction",
    "support tickets list": "listSupportTicket",
    "approve vacation": "hr_approve_leave",
    "remaining vacation days": "hr_leave_balance",
    "payroll": "hr_run_payroll",
    "who reports to whom": "hr_org_chart",
    "list open job positions": "hr_list_job_posting",
    "units in stock": "inventory_check_stock",
    "move stock between warehouses": "inventory_transfer_stock",
    "barcode": "inventory_scan_barcode",
    "order goods from a supplier": "inventory_create_purchase_order",
    "reboot server machine": "cloud.restartInstance",
    "logs of a service": "cloud.tailLogs",
    "rotate password": "cloud.rotateSecret",
    "cpu metrics": "cloud.getMetrics",
    "monthly cloud costs": "cloud.estimateCost",
    "create bucket": "cloud.createBucket",
    "publish blog article": "cms_publish_article",
    "resize an image": "cms_resize_image",
    "read a file": "files_read_text",
    "archive files as zip": "files_zip",
    "rename file": "files_move",
    "sha256 checksum": "files_checksum",
    "weather forecast": "weather_forecast",
    "weather tomorrow": "weather_forecast",
    "storm warnings": "weather_alerts",
    "sunset": "weather_sun_times",
    "air pollution quality": "weather_air_quality",
    "send email with attachment": "mail_send",
    "sendmail": "mail_send",
    "reply to a message": "mail_reply",
    "forward mail": "mail_forward",
    "post to slack channel": "slack_post_message",
    "emoji reaction": "slack_add_reaction",
    "geocoding an address": "maps_geocode",
    "route from A to B": "maps_directions",
    "restaurants nearby": "maps_nearby_places",
    "timezone": "maps_time_zone",
    "convert euros to dollars currency": "finance_convert_currency",
    "currency conversion": "finance_convert_currency",
    "exchange rates": "finance_exchange_rate",
    "share price": "finance_stock_quote",
    "bank transfer": "finance_transfer_money",
    "account balance": "finance_account_balance",
    "translation": "text_translate",
    "summarise text": "text_summarize",
    "extract text from scanned image": "text_ocr",
    "which language is this": "text_detect_language",
    "turn on the light": "turn_on",
    "thermostat temperature": "set_thermostat",
    "sql query": "query_database",
    "table columns": "describe_table",
    "what time is it": "current_time",
    "new uuid": "generate_uuid",
    "deletebranch": "github-delete-branch",
    "getSupportMacro": "getSupportMacro",
    "get support macro": "getSupportMacro",
    "get a request for sick leave": "hr_get_leave_request",
    "cancel an invoice": "billing_void_invoice",
    "delete file": "files_delete",
    "what is the temperature in a city": "weather_current",
    "find files containing a pattern": "files_search",
    "download link for a file": "files_share_link",
    "edit a blog article": "cms_update_article",
    "list employees": "hr_list_employee",
    "remove a branch from the repository": "github-delete-branch",
    "positive or negative text": "text_sentiment",
    "driving route": "maps_directions",
    "show virtual machines": "cloud.listInstance",
    "replace a secret": "cloud.rotateSecret",
    "spending by department": "finance_budget_report",
    "upload to slack": "slack_upload_file",
    "warehouse sql": "query_database",
}


class Hit(TypedDict):
    title: str


def find_hits(text: str, limit: int = 3) -> list[Hit]:
    """Find hits."""
    return []


def made(name: str, description: str = "", **properties: Any) -> Tool:
    return Tool.from_schema(name, description, {"type": "object", "properties": properties}, lambda **arguments: None)


def names(*tools: str) -> Toolset:
    return Toolset([made(name) for name in tools])
