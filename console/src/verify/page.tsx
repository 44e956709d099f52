import '../styles/tokens.css'
import '../styles/base.css'
import '../styles/controls.css'
import '../styles/fields.css'
import '../styles/meaning.css'
import '../styles/lists.css'
import '../styles/states.css'
import './verify.css'
import { type ReactNode, StrictMode, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import type { LeafEvent } from '../../../src/receipts/format.ts'
import { BadReceipt, type ProvenCall } from '../../../src/receipts/verify.ts'
import { addressOf } from '../api/session-token.ts'
import { formatClock } from '../parts/format.ts'
import { Icon, Mark } from '../parts/icon.tsx'
import { Note } from '../parts/meaning.tsx'
import { visibleText } from '../parts/visible-text.ts'
import { canVerify, type VerifiedReceipts, verifyBytes } from './verify-file.ts'
import { words } from './words.ts'

/*
 * The page that checks a receipt file, for people without an account. The server serves it at `/console/verify`. The file is read in the
 * page and never sent; the only request is for the keys that this server publishes.
 */

interface PublishedKey {
  readonly public_key: string
  readonly retired_at: string | null
}

type Result =
  | { readonly kind: 'none' }
  | { readonly kind: 'checking'; readonly calls: number }
  | { readonly kind: 'valid'; readonly found: VerifiedReceipts }
  | { readonly kind: 'invalid'; readonly reason: string }

function VerifyPage(): ReactNode {
  const [isAble, setAble] = useState(true)
  const [keys, setKeys] = useState<readonly PublishedKey[]>([])
  const [result, setResult] = useState<Result>({ kind: 'none' })
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    void canVerify().then(setAble)
  }, [])
  const check = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return
    setResult({ kind: 'checking', calls: 0 })
    try {
      const bytes = new Uint8Array(await file.arrayBuffer())
      const found = await verifyBytes(bytes, (calls) => setResult({ kind: 'checking', calls }))
      setKeys(await readKeys())
      setResult({ kind: 'valid', found })
    } catch (error) {
      setResult({ kind: 'invalid', reason: error instanceof BadReceipt ? error.message : words.unread })
    }
  }
  return (
    <main className="verify">
      <header className="row">
        <Mark />
        <h1 className="grow">{words.title}</h1>
      </header>
      <p className="soft">{words.intro}</p>
      {!isAble && <Note tone="failed">{words.cannot}</Note>}
      <label
        className={isOver ? 'drop over' : 'drop'}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          setOver(false)
          void check(event.dataTransfer.files[0])
        }}
      >
        <input
          type="file"
          className="vh"
          disabled={!isAble}
          onChange={(event) => {
            void check(event.currentTarget.files?.[0])
            // The same file can be chosen again.
            event.currentTarget.value = ''
          }}
        />
        <span className="btn">{words.choose}</span>
        <span className="soft">{words.drop}</span>
      </label>
      <div role="status" aria-live="polite">
        {result.kind === 'checking' && <p className="soft num">{words.checking(result.calls)}</p>}
        {result.kind === 'invalid' && <Verdict isValid={false} title={words.invalid} text={result.reason} />}
        {result.kind === 'valid' && (
          <Verdict isValid title={words.valid} text={words.proves(result.found.calls.length)} />
        )}
      </div>
      {result.kind === 'valid' && <Found found={result.found} keys={keys} />}
    </main>
  )
}

/** Without its server the page still checks files, but knows no keys. */
async function readKeys(): Promise<readonly PublishedKey[]> {
  try {
    const { keys }: { readonly keys: readonly PublishedKey[] } = await (
      await fetch(addressOf('/.well-known/collet-receipt-keys.json'), {
        credentials: 'omit',
        cache: 'no-cache',
      })
    ).json()
    return keys
  } catch {
    return []
  }
}

function Verdict({
  isValid,
  title,
  text,
}: {
  readonly isValid: boolean
  readonly title: string
  readonly text: string
}): ReactNode {
  return (
    <p className={isValid ? 'verdict' : 'verdict is-failed'}>
      <Icon name={isValid ? 'succeeded' : 'failed'} className={isValid ? 'is-succeeded' : 'is-failed'} />
      <strong>{title}.</strong> {visibleText(text)}
    </p>
  )
}

const MAX_SHOWN = 50

function Found({
  found: { header, blocks, calls },
  keys,
}: {
  readonly found: VerifiedReceipts
  readonly keys: readonly PublishedKey[]
}): ReactNode {
  return (
    <>
      <KeyNote header={header} keys={keys} />
      <dl className="kv">
        <Row name={words.key} value={header.key.id} isMono />
        <Row name={words.madeBy} value={header.issuer} />
        <Row name={words.madeAt} value={formatClock(header.made_at)} />
        <Row name={words.blocks} value={String(blocks)} />
      </dl>
      {calls.slice(0, MAX_SHOWN).map((call) => (
        <Call key={call.record} call={call} />
      ))}
      {calls.length > MAX_SHOWN && <p className="soft">{words.more(calls.length - MAX_SHOWN)}</p>}
      <section aria-labelledby="limits">
        <h2 id="limits">{words.notProven}</h2>
        <ul className="soft">
          {words.limits.map((limit) => (
            <li key={limit}>{limit}</li>
          ))}
        </ul>
      </section>
    </>
  )
}

type Header = VerifiedReceipts['header']

function keyText({ key, made_at }: Header, keys: readonly PublishedKey[]): string {
  const known = keys.find(({ public_key }) => public_key === key.public_key)
  if (known === undefined) return words.keyForeign
  if (known.retired_at === null) return words.keyOfServer
  return made_at > known.retired_at ? words.keyMisused : words.keyRetired
}

function KeyNote({
  header,
  keys,
}: {
  readonly header: Header
  readonly keys: readonly PublishedKey[]
}): ReactNode {
  const text = keyText(header, keys)
  if (text === words.keyForeign) return <Note tone="parked">{text}</Note>
  return text === words.keyMisused ? <Note tone="failed">{text}</Note> : <Note>{text}</Note>
}

function Call({ call: { record, facts, contents } }: { readonly call: ProvenCall }): ReactNode {
  const claim = facts.find(({ definition_hash: hash }) => hash !== undefined)
  const events = facts.flatMap((fact) => fact.events)
  const subject = events.find(({ tool }) => tool !== undefined)
  const digests = facts.flatMap(({ outcomes = [] }) => outcomes)
  return (
    <section className="card proven" aria-label={`${words.call} ${record}`}>
      <h2 className="mono clip">
        {words.call} {record}
      </h2>
      <dl className="kv">
        <Row name={words.tool} value={textOf(subject?.tool)} />
        <Row name={words.definition} value={claim?.definition_hash} isMono />
        <Row name={words.caller} value={textOf(subject?.principal)} />
        <Row name={words.tenant} value={textOf(subject?.tenant)} />
        <Row name={words.callId} value={claim?.call_id} isMono />
        <Row name={words.user} value={claim?.user_id} />
        <Row name={words.input} value={contents.input?.json ?? undisclosed(claim?.input)} isMono />
        <Row
          name={words.outcome}
          value={contents.outcome?.json ?? undisclosed(digests.at(-1)?.digest)}
          isMono
        />
      </dl>
      <h3>{words.events}</h3>
      <ol className="proven-events">
        {events.map((event, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: events keep their order.
          <li key={index}>
            <time className="num dim" dateTime={event.at}>
              {formatClock(event.at, { withMs: true })}
            </time>
            <span>
              <code>{event.type}</code> {visibleText(factsOf(event))}
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function undisclosed(digest: string | undefined): string | undefined {
  return digest === undefined ? undefined : `${digest} (${words.digestOnly})`
}

function Row({
  name,
  value,
  isMono = false,
}: {
  readonly name: string
  readonly value: string | undefined
  readonly isMono?: boolean
}): ReactNode {
  if (value === undefined) return null
  return (
    <>
      <dt>{name}</dt>
      <dd className={isMono ? 'mono wrapped' : 'wrapped'} dir="auto">
        {visibleText(value)}
      </dd>
    </>
  )
}

const SHOWN: ReadonlySet<string> = new Set([
  'type',
  'at',
  'record',
  'tenant',
  'principal',
  'tool',
  'run',
  'sequence',
])

function factsOf(event: LeafEvent): string {
  return Object.entries(event)
    .filter(([name]) => !SHOWN.has(name))
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
}

const root = document.getElementById('verify')
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <VerifyPage />
    </StrictMode>,
  )
