import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { holdsScope, useSession } from '../../api/session.ts'
import { CopyButton } from '../../parts/button.tsx'
import { formatClock, formatCount, formatDuration, shortHash } from '../../parts/format.ts'
import type { IconName } from '../../parts/icon.tsx'
import { Note, Tag, Tier } from '../../parts/meaning.tsx'
import { Bars, Line } from '../../parts/plot.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type ToolDetails, type Usage, usageQuery } from './tool-data.ts'

/*
 * The description, origin, problem and usage of a tool. `page.tsx` uses it. Usage is shown only to people who may see calls.
 */

/** Description and origin of the tool, its current problem, and its usage. */
export function About({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <>
      <section id="about" className="stack-3">
        {tool.title !== null && <p className="strong">{visibleText(tool.title)}</p>}
        <p className="lead" dir="auto">
          {visibleText(tool.description)}
        </p>
        <div className="row tags">
          <Tier tier={tool.policy.tier} isChip />
          <Tag icon={ICONS[tool.kind] ?? 'pack'}>{tool.source?.key ?? tool.kind}</Tag>
          <Tag icon="hash">
            <span className="mono" title={tool.definition_hash}>
              {shortHash(tool.definition_hash)}
            </span>
          </Tag>
          <CopyButton text={tool.definition_hash} label="Copy definition hash" />
          {[...tool.tags, ...tool.toolsets.map((name) => `toolset ${name}`)].map((tag) => (
            <Tag key={tag}>{visibleText(tag)}</Tag>
          ))}
        </div>
        <Trouble tool={tool} />
      </section>
      <UsageStats id={tool.base} />
    </>
  )
}

const ICONS: Readonly<Record<string, IconName>> = {
  mcp: 'mcp',
  workflow: 'workflow',
  connector: 'cloud',
  'host-extension': 'terminal',
}

const TO_CONNECTIONS = (
  <Link className="btn sm" to="/connections">
    Open connections
  </Link>
)

/** The most serious problem of the tool. */
function Trouble({ tool: { source, change } }: { readonly tool: ToolDetails }): ReactNode {
  const isDown = source !== null && source.state !== 'ready'
  return (
    <>
      {isDown && (
        <Note tone="failed" action={TO_CONNECTIONS}>
          <b>
            {source.key} has been {source.state} since {formatClock(source.since)}.
          </b>{' '}
          {source.reason ?? 'Calls fail until it is back.'}
        </Note>
      )}
      {change !== null && (
        <Note tone="parked" action={TO_CONNECTIONS}>
          <b>
            Its source changed the definition at {formatClock(change.since)} ({change.class}).
          </b>{' '}
          {change.suspended
            ? 'It cannot be called until the change is decided.'
            : 'The previous definition is served until the change is decided.'}
        </Note>
      )}
    </>
  )
}

/** Shown only to people who may see calls. */
function UsageStats({ id }: { readonly id: string }): ReactNode {
  const maySee = holdsScope(useSession()?.principal, 'admin:calls')
  const { data: usage } = useQuery({ ...usageQuery(id), enabled: maySee })
  if (usage === undefined) return null
  const share = usage.calls === 0 ? 0 : (usage.errors / usage.calls) * 100
  return (
    <section aria-labelledby="usage-h">
      <h2 className="vh" id="usage-h">
        Usage in the last 24 hours
      </h2>
      <dl className="stats">
        <Stat name="Calls, 24 h" value={`${formatCount(usage.calls)}${usage.whole ? '' : '+'}`}>
          <Bars
            summary={`Calls each hour, ${formatCount(usage.calls)} in total`}
            bars={usage.buckets.map(({ at, calls }) => ({ key: at, parts: [{ value: calls }] }))}
          />
        </Stat>
        <Stat name="Errors" value={share.toFixed(share > 0 && share < 10 ? 1 : 0)} unit="%">
          <Bars
            summary={`Errors each hour, ${formatCount(usage.errors)} in total`}
            bars={usage.buckets.map(({ at, errors }) => ({
              key: at,
              parts: [{ value: errors, tone: 'bad' }],
            }))}
          />
        </Stat>
        <Quantile name="p50" usage={usage} member="p50_ms" />
        <Quantile name="p95" usage={usage} member="p95_ms" />
      </dl>
    </section>
  )
}

interface QuantileProps {
  readonly name: string
  readonly usage: Usage
  readonly member: 'p50_ms' | 'p95_ms'
}

function Quantile({ name, usage, member }: QuantileProps): ReactNode {
  const whole = usage[member]
  const [value, unit] = whole === null ? ['–', ''] : formatDuration(whole).split(' ')
  return (
    <Stat name={name} value={value ?? ''} unit={unit ?? ''}>
      <Line
        summary={whole === null ? `${name}: no data` : `${name} each hour, ${formatDuration(whole)} overall`}
        values={usage.buckets.map((bucket) => bucket[member])}
      />
    </Stat>
  )
}

function Stat({ name, value, unit = '', children }: StatProps): ReactNode {
  return (
    <div className="stat">
      <dt>{name}</dt>
      <dd>
        <b className="num">{value}</b>
        <span className="dim">{unit}</span>
        {children}
      </dd>
    </div>
  )
}

interface StatProps {
  readonly name: string
  readonly value: string
  readonly unit?: string
  readonly children: ReactNode
}
