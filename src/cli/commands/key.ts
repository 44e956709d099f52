import { operatorName } from '#cli/admin-client'
import { type Command, CommandFailure, defineCommand, EXIT } from '#cli/command'
import { STORE_OPTIONS, withStore } from '#cli/store-access'
import type { KeyChangeEnd, KeyProgress, KeyStatus, LaggingWriter } from '#core/ports/key-change'
import type { Store } from '#core/ports/store'

/** How long servers may take to follow before the command gives up; they look every second. */
const PATIENCE_MS = 30_000

const keyRotate = defineCommand<'store' | 'config'>({
  name: 'key rotate',
  summary: 'Changes COLLET_KEY: seals everything anew, while servers run.',
  details: [
    'First give every server, and this command, the new key as COLLET_KEY and the current one as COLLET_KEY_OLD, and restart the servers one after another.',
    '(With a key file: put the new key on a line before the current one.) When this command is done, take the old key away and restart them once more.',
    'It may be interrupted at any moment; run it again and it goes on. Links to approvals that were sent before stop working, and consents in progress start again.',
  ],
  positionals: [],
  options: STORE_OPTIONS,
  examples: ['COLLET_KEY=$NEW COLLET_KEY_OLD=$CURRENT collet key rotate'],
  async run(args, context) {
    const { output, json, clock } = context
    const shown = new Set<string>()
    const tell = (progress: KeyProgress): void => {
      const text = progressText(progress)
      if (!shown.has(text)) output.note(text)
      shown.add(text)
    }
    const end = await withStore(args, context, async (store) => {
      const { step, hasOldKey } = await store.keyChange.status()
      if (step === 'none' && !hasOldKey) throw new CommandFailure(EXIT.usage, NOTHING_TO_CHANGE_TO)
      const nowMs = () => clock.nowMs()
      return store.keyChange.rotate({ by: operatorName(context), nowMs, tell, patienceMs: PATIENCE_MS })
    })
    const text = endText(end)
    if (end.kind === 'lacking' || end.kind === 'waiting') throw new CommandFailure(EXIT.toolFailed, text)
    if (json) output.json(end)
    else output.data(text)
    return EXIT.ok
  },
})

const keyStatus = defineCommand<'store' | 'config'>({
  name: 'key status',
  summary: 'Says which key the store is under, and how far a change of it is.',
  positionals: [],
  options: STORE_OPTIONS,
  examples: ['collet key status', 'collet key status --json'],
  async run(args, context) {
    const { output, json } = context
    const status = await withStore(args, context, (store) => store.keyChange.status())
    const found = describeKeyStatus(status)
    if (json) output.json(status)
    else output.data(found?.message ?? `Everything is under COLLET_KEY (generation ${status.generation}).`)
    if (found !== undefined) output.note(found.advice)
    return EXIT.ok
  },
})

/** What an operator should know about the key of a store; what keeps it from being opened is said elsewhere. */
export async function findKeyChange(
  isThere: boolean,
  openStore: () => Promise<Store>,
): Promise<readonly Finding[]> {
  if (!isThere) return []
  try {
    const store = await openStore()
    try {
      const found = describeKeyStatus(await store.keyChange.status())
      return found === undefined ? [] : [found]
    } finally {
      await store.close()
    }
  } catch {
    return []
  }
}

interface Finding {
  readonly message: string
  readonly advice: string
}

/** What is unusual about the key, and what to do; `undefined` when nothing is. */
function describeKeyStatus({ step, hasOldKey, due }: KeyStatus): Finding | undefined {
  if (step === 'not begun') {
    return {
      message: 'The store is still under COLLET_KEY_OLD',
      advice: 'When every server has both keys, run: collet key rotate',
    }
  }
  if (step !== 'none') {
    return {
      message: `The change of the key is under way: ${due === 1 ? '1 row is' : `${due} rows are`} still under the one before`,
      advice: 'Let it go on: collet key rotate',
    }
  }
  if (!hasOldKey) return undefined
  return {
    message: 'COLLET_KEY_OLD is set and no longer needed',
    advice: 'Remove it and restart the servers.',
  }
}

const NOTHING_TO_CHANGE_TO =
  'Set COLLET_KEY to the new key and COLLET_KEY_OLD to the current one, here and for every server. collet keys generate makes a key.'

function progressText(progress: KeyProgress): string {
  if (progress.step === 'announced') return 'Waiting until every server can read the new keys'
  const { what, done, total } = progress
  return `Sealed anew: ${done} of ${total} (${what})`
}

function endText(end: KeyChangeEnd): string {
  switch (end.kind) {
    case 'done':
      return `Everything is under the new key (generation ${end.generation}, ${end.resealed} rows sealed anew). Remove COLLET_KEY_OLD and restart the servers.`
    case 'nothing':
      return 'Everything is under COLLET_KEY already. Remove COLLET_KEY_OLD.'
    case 'lacking':
      return `Nothing was changed: without the new key runs ${writersText(end.writers)}. Restart it with both, COLLET_KEY and COLLET_KEY_OLD, then run this again.`
    case 'waiting':
      return `This writer does not follow: ${writersText(end.writers)}. Wait for it or restart it, then run this again; what was done stays done.`
  }
}

function writersText(writers: readonly LaggingWriter[]): string {
  const each = writers.map(
    ({ writer, startedMs }) => `${writer} (running since ${new Date(startedMs).toISOString()})`,
  )
  return each.join(' and ')
}

export const COMMANDS: readonly Command[] = [keyRotate, keyStatus]
