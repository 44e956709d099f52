import { Breather } from '#core/breather'
import type { PinRecord, PinWrite } from '#core/ports/pin-store'
import { toolNameOf } from './pin-view.ts'

/** A transaction of this much takes about 15 ms; a source may have thousands of tools. */
const MOST_CHARACTERS = 1_000_000
const MOST_PINS = 1_000

/**
 * A write in parts that hold the serving thread shortly. A crash in between loses nothing: the rows are independent of
 * each other, and a first sight goes on where it stopped, because it is one until its last part.
 */
export async function* partsOf(change: PinWrite): AsyncGenerator<PinWrite> {
  const breather = new Breather()
  const isFirst = change.seen <= 0
  let pins: PinRecord[] = []
  let characters = 0
  const toldWith = eventsByTool(change)
  const part = (isPartial: boolean): PinWrite => ({
    ...change,
    pins,
    ...(isPartial && isFirst ? { isPartial, changesServed: false } : {}),
    events: [
      ...pins.flatMap((pin) => toldWith.get(toolNameOf(change.source, pin)) ?? []),
      ...(isPartial ? [] : (toldWith.get(undefined) ?? [])),
    ],
  })
  for (const pin of change.pins) {
    if (characters > MOST_CHARACTERS || pins.length >= MOST_PINS) {
      yield part(true)
      pins = []
      characters = 0
    }
    pins.push(pin)
    characters += JSON.stringify(pin).length
    if (breather.isDue) await breather.breathe()
  }
  yield part(false)
}

/** Under `undefined` what is about no single tool. */
function eventsByTool({ events }: PinWrite): ReadonlyMap<string | undefined, PinWrite['events']> {
  return Map.groupBy(events, (event) => ('tool' in event ? event.tool : undefined))
}
