import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { Differences } from '../../parts/differences.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Note, ToolName } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { Doctor } from './doctor.tsx'
import { acceptAllOf, decidePin, type Pin, pinQuery, type Source } from './source-data.ts'
import { WORDS } from './words.tsx'

/*
 * Problems of sources that need a person. `page.tsx` uses it. It is empty if there are none.
 */

interface AttentionProps {
  readonly sources: readonly Source[]
  readonly pins: readonly Pin[]
  readonly onChanged: () => void
}

const MAX_SHOWN = 12

/** Problems that need a person: unavailable sources and changed definitions. Empty if there are none. */
export function Attention({ sources, pins, onChanged }: AttentionProps): ReactNode {
  const unhealthy = sources.filter(({ state }) => state === 'down' || state === 'degraded')
  const held = pins.filter(({ waiting }) => waiting !== null && waiting.rejected_by === null)
  if (unhealthy.length + held.length === 0) return null
  const sourcesWithSeveral = [...Map.groupBy(held, ({ source }) => source)].filter(
    ([, group]) => group.length > 1,
  )
  return (
    <section aria-labelledby="att">
      <h2 id="att">{WORDS.needsAttention}</h2>
      <div className="pair">
        {unhealthy.map((source) => (
          <Doctor key={source.key} source={source} />
        ))}
        {held.slice(0, MAX_SHOWN).map((pin) => (
          <HeldPin key={`${pin.tool} ${pin.waiting?.hash}`} pin={pin} onChanged={onChanged} />
        ))}
      </div>
      {sourcesWithSeveral.map(([source, group]) => (
        <AcceptAll key={source} source={source} pins={group} onChanged={onChanged} />
      ))}
    </section>
  )
}

const CHANGE_LABELS = {
  addition: WORDS.newNotServedYet,
  change: WORDS.changed,
  removal: WORDS.goneUpstream,
} as const

interface HeldPinProps {
  readonly pin: Pin
  readonly onChanged: () => void
}

/** One changed definition. Accepting it is the dangerous action. */
function HeldPin({ pin, onChanged }: HeldPinProps): ReactNode {
  const diff = useQuery(pinQuery(pin))
  const [isAsking, setAsking] = useState(false)
  const { isBusy, failure, run } = useAction(async () => {
    await decidePin(pin, 'reject')
    onChanged()
  })
  const next = diff.data?.next_version
  const since = pin.waiting === null ? '' : formatClock(pin.waiting.seen_at)
  const state = pin.state === 'suspended' ? WORDS.suspended : CHANGE_LABELS[pin.waiting?.kind ?? 'change']
  const accept = next == null ? WORDS.acceptRemoval : WORDS.acceptAs(next)
  return (
    <article className="card held" aria-labelledby={`held-${pin.tool}`}>
      <header className="card-head">
        <Icon name="pin" className="is-parked" />
        <h3 id={`held-${pin.tool}`}>
          <ToolName name={pin.tool} />
        </h3>
        <span className="dim clip grow">{WORDS.since(state, since)}</span>
        {pin.version !== null && next != null && (
          <span className="mono dim nowrap">
            {pin.version} → {next}
          </span>
        )}
      </header>
      {diff.data !== undefined && <Differences differences={diff.data.differences} />}
      {diff.error !== null && <Note tone="failed">{messageOf(diff.error)}</Note>}
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
      <footer className="card-foot">
        <span className="grow">{effectOf(pin)}</span>
        <Button isSmall kind="danger" writes onClick={() => setAsking(true)}>
          {accept}
        </Button>
        <Button isSmall kind="primary" writes isBusy={isBusy} onClick={run}>
          {WORDS.rejectChange}
        </Button>
      </footer>
      <ConfirmDialog
        title={WORDS.acceptChange(pin.tool)}
        verb={WORDS.acceptChange2}
        keep={WORDS.cancel}
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={async () => {
          await decidePin(pin, 'accept')
          onChanged()
        }}
      >
        {WORDS.agentsSeeNewDefinitionAt}
      </ConfirmDialog>
    </article>
  )
}

function effectOf({ state, waiting }: Pin): string {
  if (state === 'suspended') return WORDS.agentsCannotCallUntilYou
  if (waiting?.kind === 'addition') return WORDS.agentsDoNotSeeUntil
  return WORDS.agentsKeepUsingPreviousDefinition
}

interface AcceptAllProps {
  readonly source: string
  readonly pins: readonly Pin[]
  readonly onChanged: () => void
}

function AcceptAll({ source, pins, onChanged }: AcceptAllProps): ReactNode {
  // The changes that were on screen when the dialog was opened; the list behind it is refreshed.
  const [shownPins, setShownPins] = useState<readonly Pin[]>()
  const acceptable = pins.filter(({ waiting }) => waiting?.class !== 'suspicious')
  return (
    <p className="row accept-all">
      <span className="soft grow">
        {WORDS.waiting(countOf(pins.length, 'change'), source, pins.length === 1 ? 'is' : 'are')}
      </span>
      <Button
        isSmall
        kind="danger"
        writes
        off={acceptable.length === 0 ? WORDS.allThemAreSuspiciousDecide : undefined}
        onClick={() => setShownPins(acceptable)}
      >
        {WORDS.acceptAll(source)}
      </Button>
      <ConfirmDialog
        title={WORDS.accept(countOf((shownPins ?? acceptable).length, 'change'), source)}
        typed={source}
        verb={WORDS.acceptAll2}
        keep={WORDS.cancel}
        isOpen={shownPins !== undefined}
        onClose={() => setShownPins(undefined)}
        onConfirm={async () => {
          await acceptAllOf(source, shownPins ?? [])
          onChanged()
        }}
      >
        {WORDS.suspiciousChangesStayHeldNeed}
      </ConfirmDialog>
    </p>
  )
}
