import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Section } from '../../app/page.tsx'
import { countOf } from '../../parts/format.ts'
import { Tag, ToolName } from '../../parts/meaning.tsx'
import { Empty, Found } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type Toolset, toolsetsQuery } from './access-data.ts'
import { WORDS } from './words.tsx'

/*
 * The toolsets of the config: what each selects, and which keys and roles have it. `page.tsx` uses it. It is read-only, because
 * toolsets are set in the config.
 */

export function Toolsets({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  const found = useQuery(toolsetsQuery)
  return (
    <Section
      id="toolsets"
      title={WORDS.toolsets}
      scope="admin:keys"
      onEnter={() => onCommand('collet toolsets')}
    >
      <Found query={found} what={WORDS.toolsets2}>
        {(toolsets) =>
          toolsets.length === 0 ? (
            <Empty title={WORDS.noToolsets}>{WORDS.toolsetLimitsKeyOrClient(<code>toolsets</code>)}</Empty>
          ) : (
            <ul className="toolsets">
              {toolsets.map((toolset) => (
                <ToolsetItem key={toolset.name} toolset={toolset} onCommand={onCommand} />
              ))}
            </ul>
          )
        }
      </Found>
    </Section>
  )
}

interface ItemProps {
  readonly toolset: Toolset
  readonly onCommand: (command: string) => void
}

function ToolsetItem({ toolset, onCommand }: ItemProps): ReactNode {
  const { name, description, include, exclude, tier, path, tools, keys, roles } = toolset
  const facts = [
    [WORDS.include, include?.join(', ')],
    [WORDS.exclude, exclude === null || exclude.length === 0 ? undefined : exclude.join(', ')],
    [WORDS.highestTier, tier ?? undefined],
    [WORDS.keys, keys.length === 0 ? WORDS.none : keys.join(', ')],
    [WORDS.roles, roles.length === 0 ? undefined : roles.join(', ')],
    [WORDS.mcpAddress, path],
  ] as const
  return (
    <li className="card" onFocus={() => onCommand(`collet tools --toolset ${name}`)}>
      <div className="card-head">
        <h3 dir="auto">{visibleText(name)}</h3>
        <span className="grow" />
        <Tag>{countOf(tools.length, 'tool')}</Tag>
        <Link className="link meta" to="/models" search={{ toolset: name }}>
          {WORDS.whatModelsSee}
        </Link>
      </div>
      {description !== null && (
        <p className="soft" dir="auto">
          {visibleText(description)}
        </p>
      )}
      <dl className="kv">
        {facts.map(([label, text]) =>
          text === undefined ? null : (
            <div key={label} className="contents">
              <dt>{label}</dt>
              <dd className="mono">{visibleText(text)}</dd>
            </div>
          ),
        )}
      </dl>
      {tools.length > 0 && (
        <details>
          <summary>{WORDS.selectedTools}</summary>
          <ul className="tool-links">
            {tools.map((tool) => (
              <li key={tool}>
                <Link className="link" to="/tools/$id" params={{ id: baseOf(tool) }}>
                  <ToolName name={baseOf(tool)} />
                </Link>
              </li>
            ))}
          </ul>
        </details>
      )}
    </li>
  )
}

function baseOf(tool: string): string {
  return tool.replace(/@[^@]*$/, '')
}
