import { type CommandContext, defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { journalLine } from '#cli/journal-line'
import { STORE_OPTIONS, withStore } from '#cli/operator-store'
import type { JournalEvent, JournalGroup, JournalHead } from '#core/journal/events'
import type { Store } from '#core/ports/store'

const PAGE = 500
const POLL_MS = 250

export const journal = defineCommand<'follow' | 'store' | 'config'>({
  name: 'journal',
  summary: 'Prints what happened, oldest first: one event a line, without inputs and outputs.',
  positionals: [],
  options: {
    follow: { help: 'Stay and print what comes, until Ctrl-C.' },
    ...STORE_OPTIONS,
  },
  examples: ['collet journal', 'collet journal --follow --json | grep call.ambiguous'],
  async run(args, context) {
    await withStore(args, context, (store) => print(store, args.flag('follow'), context))
    return EXIT.ok
  },
})

async function print(store: Store, follow: boolean, context: CommandContext): Promise<void> {
  /** One position per writer chain: a time or a number over all of them would lose late commits (rule 16). */
  const positions = new Map<string, JournalHead>()
  const stop = Promise.withResolvers<void>()
  let stopped = false
  const endListening = context.onStop(() => {
    stopped = true
    stop.resolve()
  })
  try {
    while (!stopped) {
      const groups = await store.readJournal([...positions.values()], PAGE)
      for (const group of groups) {
        positions.set(group.writer, { writer: group.writer, group: group.group, link: group.link })
        await printGroup(store, group, context)
      }
      if (groups.length > 0) continue
      if (!follow) return
      await Promise.race([stop.promise, pause()])
    }
  } finally {
    endListening()
  }
}

async function printGroup(
  store: Store,
  { writer, group, events }: JournalGroup,
  { output, json }: CommandContext,
): Promise<void> {
  for (const event of events) {
    const shown = isOfCall(event) ? { ...event, ...(await traceOf(store, event.record)) } : event
    if (json) output.json({ writer, group, ...shown })
    else output.data(journalLine(shown))
  }
}

type CallEvent = Extract<JournalEvent, { readonly record: string; readonly attempt: number }>

function isOfCall(event: JournalEvent): event is CallEvent {
  return event.type.startsWith('call.')
}

/** Callers choose their trace ids, so the journal itself has none: it is read from what is sealed beside it (rule 15). */
async function traceOf(store: Store, record: string): Promise<{ readonly traceId?: string }> {
  const traceId = (await store.findByRecord(record))?.traceId ?? ''
  return traceId === '' ? {} : { traceId }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS))
}
