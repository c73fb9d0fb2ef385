"""IC cards and QR codes.

One rule: a lock learns a card's number; nothing is written on the card. Numbers are decimal text, and the reversed call stores
the four bytes the other way round: 3661413478 (DA 3C BC 66) becomes 1723612378 (66 BC 3C DA).
"""

from __future__ import annotations

from collections.abc import Callable

from .context import Context
from .door import Door, StoredKey
from .errcodes import VendorError, success_body
from .model import ADDING, Card, Lock, QrCode
from .params import INVALID
from .passcodes import BY_LIST, unknown_delete
from .radio import ASYNCHRONOUS, BY_GATEWAY, BY_NB, BY_PHONE

CARD_BIT, QR_BITS = 1, (44, 108)
CARD_NOT_FOUND, MEMORY_FULL, UNSUPPORTED = -1021, -4056, -4043
QR_NOT_FOUND = -3
MAX_CARD_DIGITS = 20


async def add(context: Context) -> dict[str, object]:
    """identityCard/add."""
    return await _add(context, context.params.text("cardNumber"))


async def add_reversed(context: Context) -> dict[str, object]:
    """identityCard/addForReversedCardNumber: four-byte numbers only. Raises VendorError(-3) for a longer one."""
    return await _add(context, reverse_number(context.params.text("cardNumber")))


def reverse_number(number: str) -> str:
    """Turns a four-byte decimal number's bytes round. Raises VendorError(-3)."""
    if not (number.isascii() and number.isdigit()) or int(number) >= 1 << 32:
        raise VendorError(INVALID)
    return str(int.from_bytes(int(number).to_bytes(4, "big"), "little"))


async def _add(context: Context, number: str) -> dict[str, object]:
    lock = _lock(context)
    params = context.params
    if not (number.isascii() and number.isdigit()) or len(number) > MAX_CARD_DIGITS:
        raise VendorError(INVALID)
    window = context.window()
    card_type = params.choice("cardType", (1, 4), 1)
    cyclic = params.text("cyclicConfig", "")
    params.json("cyclicConfig")
    way = params.choice("addType", (BY_PHONE, BY_GATEWAY, BY_NB, ASYNCHRONOUS), BY_PHONE)
    if not context.app.habits.duplicate_cards and any(c.number == number for c in lock.cards.values()):
        raise VendorError(-1)
    act = _adder(lock, number, window)
    if way == BY_PHONE and len(lock.cards) >= lock.door.card_capacity:
        raise VendorError(MEMORY_FULL)
    if way == ASYNCHRONOUS and lock.wifi is None:
        raise VendorError(-3034)
    if way != ASYNCHRONOUS:
        await context.write(lock, way, act)
    card = Card(
        card_id=context.world.new_id(),
        number=number,
        name=params.text("cardName", ""),
        start=window[0],
        end=window[1],
        created_at=context.now,
        sender=context.account.username,
        type=card_type,
        cyclic=cyclic,
        nonce=params.fields.get("clientNonce", "")[:64],
    )
    lock.cards[card.card_id] = card
    if way == ASYNCHRONOUS:
        card.status = ADDING
        context.later(lock, card, act)
    return {"cardId": card.card_id}


def _adder(lock: Lock, number: str, window: tuple[int, int]) -> Callable[[Door], None]:
    start, end = lock.wall_window(*window)

    def act(door: Door) -> None:
        if number not in door.cards and len(door.cards) >= door.card_capacity:
            raise VendorError(MEMORY_FULL)
        door.cards[number] = door.stored(number, start, end)

    return act


async def change_period(context: Context) -> dict[str, object]:
    """identityCard/changePeriod: a period card cannot become a permanent one."""
    lock = _lock(context)
    card = _card(context, lock)
    window = context.window()
    context.params.json("cyclicConfig")
    if window == (0, 0) and card.end:
        raise VendorError(INVALID)
    way = context.params.choice("changeType", (BY_PHONE, BY_GATEWAY, BY_NB), BY_PHONE)
    start, end = lock.wall_window(*window)

    def act(door: Door) -> None:
        if card.number not in door.cards:
            raise VendorError(CARD_NOT_FOUND)
        door.cards[card.number] = door.stored(card.number, start, end)

    await context.write(lock, way, act)
    card.start, card.end = window
    return success_body()


async def rename(context: Context) -> dict[str, object]:
    """identityCard/rename: the cloud's record only."""
    _card(context, _lock(context)).name = context.params.text("cardName")
    return success_body()


async def delete(context: Context) -> dict[str, object]:
    """identityCard/delete by id; unknown ids as for passcodes."""
    lock = _lock(context)
    card = lock.cards.get(context.params.integer("cardId"))
    return await _delete(context, lock, card)


async def delete_by_number(context: Context) -> dict[str, object]:
    """identityCard/deleteByCardNumber: reaches what a code of its own reaches, see keyboardPwd/deleteByCode."""
    lock = _lock(context)
    number = context.params.text("cardNumber")
    card = next((c for c in lock.cards.values() if c.number == number), None)
    unrecorded = number in lock.door.cards and context.app.habits.delete_by_code != BY_LIST
    if card is None and unrecorded and _way(context) != BY_PHONE:
        await context.write(lock, _way(context), lambda door: _drop(context, door, number))
        return success_body()
    return await _delete(context, lock, card)


async def _delete(context: Context, lock: Lock, card: Card | None) -> dict[str, object]:
    way = _way(context)
    if card is None:
        return unknown_delete(context, CARD_NOT_FOUND)
    await context.write(lock, way, lambda door: _drop(context, door, card.number))
    lock.cards.pop(card.card_id, None)
    return success_body()


def _drop(context: Context, door: Door, number: str) -> None:
    if door.cards.pop(number, None) is None and context.app.habits.absent_delete:
        raise VendorError(CARD_NOT_FOUND)


def _way(context: Context) -> int:
    return context.params.choice("deleteType", (BY_PHONE, BY_GATEWAY, BY_NB), BY_PHONE)


async def list_cards(context: Context) -> dict[str, object]:
    """identityCard/list: searchStr looks at the name."""
    lock = _lock(context)
    wanted = context.params.text("searchStr", "")
    found = [_item(lock, card) for card in lock.cards.values() if wanted in card.name]
    return context.page(context.order(found, "cardName", "createDate"))


def _item(lock: Lock, card: Card) -> dict[str, object]:
    item: dict[str, object] = {
        "cardId": card.card_id,
        "lockId": lock.lock_id,
        "cardNumber": card.number,
        "cardName": card.name,
        "startDate": card.start,
        "endDate": card.end,
        "createDate": card.created_at,
        "senderUsername": card.sender,
        "cardType": card.type,
        "status": card.status,
    }
    if card.cyclic:
        item["cyclicConfig"] = card.cyclic
    return item


def _lock(context: Context) -> Lock:
    lock = context.admin_lock()
    if not lock.has_feature(CARD_BIT):
        raise VendorError(UNSUPPORTED)
    return lock


def _card(context: Context, lock: Lock) -> Card:
    card = lock.cards.get(context.params.integer("cardId"))
    if card is None:
        raise VendorError(CARD_NOT_FOUND)
    return card


# -- QR codes: basic, little is known of them


async def qr_add(context: Context) -> dict[str, object]:
    """qrCode/add: type 1 period, 2 permanent. The lock learns the content over the gateway with addType 2."""
    lock = _qr_lock(context)
    params = context.params
    qr_type = params.choice("type", (1, 2, 4))
    window = context.window() if qr_type != 2 else (0, 0)
    refresh = params.integer("refreshTime", 0)
    if refresh and not 10 <= refresh <= 1440:
        raise VendorError(INVALID)
    way = params.choice("addType", (0, 1, 2), 0)
    qr_id = context.world.new_id()
    content = f"QR{lock.lock_id}-{qr_id}-{lock.secret[:8]}"
    if way == BY_GATEWAY:
        await context.write(lock, way, _qr_writer(lock, content, window))
    else:  # 0: computed by lock and cloud alike, no radio
        _qr_writer(lock, content, window)(lock.door)
    lock.qr_codes[qr_id] = QrCode(qr_id, params.text("name", ""), qr_type, window[0], window[1], content, context.now, refresh)
    return {"qrCodeId": qr_id, "qrCodeNumber": content}


def _qr_writer(lock: Lock, content: str, window: tuple[int, int]) -> Callable[[Door], None]:
    start, end = lock.wall_window(*window)

    def act(door: Door) -> None:
        door.qr_codes[content] = StoredKey(content, start, end)

    return act


async def qr_update(context: Context) -> dict[str, object]:
    """qrCode/update: new window."""
    lock, qr = _qr(context)
    window = context.window()
    await context.write(lock, BY_GATEWAY, _qr_writer(lock, qr.content, window))
    qr.start, qr.end = window
    qr.name = context.params.text("name", qr.name)
    return success_body()


async def qr_data(context: Context) -> dict[str, object]:
    """qrCode/getData: what to render."""
    lock, qr = _qr(context)
    return {"lockId": lock.lock_id, "qrCodeId": qr.qr_id, "qrCodeContent": qr.content}


async def qr_delete(context: Context) -> dict[str, object]:
    """qrCode/delete."""
    lock, qr = _qr(context)
    way = context.params.choice("deleteType", (0, 1, 2), BY_GATEWAY)
    await context.write(lock, way or BY_PHONE, lambda door: _qr_drop(door, qr.content))
    lock.qr_codes.pop(qr.qr_id, None)
    return success_body()


def _qr_drop(door: Door, content: str) -> None:
    door.qr_codes.pop(content, None)


async def qr_list(context: Context) -> dict[str, object]:
    """qrCode/list."""
    lock = _qr_lock(context)
    found: list[dict[str, object]] = [
        {
            "qrCodeId": qr.qr_id,
            "lockId": lock.lock_id,
            "name": qr.name,
            "type": qr.type,
            "startDate": qr.start,
            "endDate": qr.end,
            "createDate": qr.created_at,
            "status": qr.status,
        }
        for qr in lock.qr_codes.values()
    ]
    return context.page(context.order(found, "name", "createDate"))


def _qr_lock(context: Context) -> Lock:
    lock = context.admin_lock()
    if not any(lock.has_feature(bit) for bit in QR_BITS):
        raise VendorError(UNSUPPORTED)
    return lock


def _qr(context: Context) -> tuple[Lock, QrCode]:
    """The call may leave the lock out: the id says it. Raises VendorError(-3) for an unknown id (assumed)."""
    qr_id = context.params.integer("qrCodeId")
    for lock in context.world.state.locks.values():
        if qr_id in lock.qr_codes and context.may_administer(lock):
            context.call.lock_id = lock.lock_id
            return lock, lock.qr_codes[qr_id]
    raise VendorError(QR_NOT_FOUND)
