import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { CopyButton } from '../../parts/button.tsx'
import { formatClock, shortHash } from '../../parts/format.ts'
import type { IconName } from '../../parts/icon.tsx'
import { Markdown } from '../../parts/markdown/markdown.tsx'
import { Note, Tag, Tier } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { ToolDetails } from './tool-data.ts'
import { UsageStats } from './usage.tsx'
import { WORDS } from './words.tsx'

/*
 * The description, origin, problem and usage of a tool. `page.tsx` uses it. Only people who may see calls see the usage.
 */

/** Description and origin of the tool, its current problem, and its usage. */
export function About({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <>
      <section id="about" className="stack-3">
        {tool.title !== null && !beginsWith(tool.description, tool.title) && (
          <p className="strong" dir="auto">
            {visibleText(tool.title)}
          </p>
        )}
        <div className="lead">
          <Markdown text={tool.description} />
        </div>
        <div className="row tags">
          <Tier tier={tool.policy.tier} isChip />
          <Tag icon={ICONS[tool.kind] ?? 'pack'}>{tool.source?.key ?? tool.kind}</Tag>
          <Tag icon="hash">
            <span className="mono" title={tool.definition_hash}>
              {shortHash(tool.definition_hash)}
            </span>
          </Tag>
          <CopyButton text={tool.definition_hash} label={WORDS.copyDefinitionHash} />
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

/** Whether a title is also the first line of the description, for example as its heading. */
function beginsWith(description: string, title: string): boolean {
  const [first = ''] = description.trimStart().split('\n')
  return first.replace(/^#+\s*/, '').trim() === title.trim()
}

const ICONS: Readonly<Record<string, IconName>> = {
  mcp: 'mcp',
  workflow: 'workflow',
  connector: 'cloud',
  'host-extension': 'terminal',
}

const TO_SOURCES = (
  <Link className="btn sm" to="/sources">
    {WORDS.openSources}
  </Link>
)

/** The most serious problem of the tool. */
function Trouble({ tool: { source, change } }: { readonly tool: ToolDetails }): ReactNode {
  const isDown = source !== null && source.state !== 'ready'
  return (
    <>
      {isDown && (
        <Note tone="failed" action={TO_SOURCES}>
          <b>{WORDS.hasBeenSince(source.key, source.state, formatClock(source.since))}</b>{' '}
          {source.reason ?? WORDS.callsFailUntilBack}
        </Note>
      )}
      {change !== null && (
        <Note tone="parked" action={TO_SOURCES}>
          <b>{WORDS.itsSourceChangedDefinitionAt(formatClock(change.since), change.class)}</b>{' '}
          {change.suspended ? WORDS.cannotBeCalledUntilChange : WORDS.previousDefinitionServedUntilChange}
        </Note>
      )}
    </>
  )
}
