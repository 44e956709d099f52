import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useDeferredValue } from 'react'
import { serverQuery } from '../../api/server.ts'
import { type ToolListCost, type ToolSearchAnswer, toolCostQuery, toolSearchQuery } from '../../api/tools.ts'
import { quoted } from '../../app/commands.ts'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { Code } from '../../parts/code.tsx'
import { SearchInput, Select } from '../../parts/field.tsx'
import { formatBytes, formatCount } from '../../parts/format.ts'
import { Tag, ToolName } from '../../parts/meaning.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import './models.css'

/**
 * The page `/models`: what the list of tools costs a model, in tokens, and what a search answers, for all tools or one toolset.
 * The router opens it; the catalog links to it. Invariant: the search is that of the server, so the page shows what a model gets.
 */

export function ModelsPage(): ReactNode {
  const [{ toolset = '', q = '' }, change] = useSearchState()
  const cost = useQuery(toolCostQuery(toolset))
  const { data: server } = useQuery(serverQuery())
  const toolsets = server?.toolsets ?? []
  const inToolset = toolset === '' ? '' : ` --toolset ${quoted(toolset)}`
  usePageCommand(`collet tools${inToolset}${q === '' ? '' : ` --search ${quoted(q)}`}`)
  return (
    <Page
      title="What models see"
      before={
        <nav className="crumb" aria-label="Breadcrumb">
          <Link to="/tools">Tools</Link>
          <span aria-hidden="true">/</span>
        </nav>
      }
      actions={
        toolsets.length > 0 && (
          <Select
            aria-label="Toolset"
            value={toolset}
            onChange={({ currentTarget: { value } }) => change({ toolset: value }, { isStep: true })}
            options={[
              { value: '', label: 'All tools' },
              ...toolsets.map(({ name }) => ({ value: name, label: `Toolset ${name}` })),
            ]}
          />
        )
      }
    >
      <div className="models">
        {cost.data !== undefined && <Costs cost={cost.data} toolset={toolset} />}
        <SearchTrial toolset={toolset} text={q} onText={(text) => void change({ q: text })} />
        {cost.data !== undefined && <Expensive cost={cost.data} />}
        {cost.data === undefined && cost.error === null && <Loading what="costs" rows={4} />}
        {cost.data === undefined && cost.error !== null && (
          <Failed what="The cost could not be read" error={cost.error} onRetry={() => void cost.refetch()} />
        )}
      </div>
    </Page>
  )
}

const COST_COLUMNS = [
  { title: 'Discovery' },
  { title: 'Tools listed', className: 'c-n', isEnd: true },
  { title: 'Size', className: 'c-n', isEnd: true },
  { title: 'Tokens', className: 'c-n', isEnd: true },
] as const

function Costs({ cost, toolset }: { readonly cost: ToolListCost; readonly toolset: string }): ReactNode {
  const other = cost.discovery === 'list' ? 'search' : 'list'
  return (
    <section aria-labelledby="cost-h">
      <div className="sec-head">
        <h2 id="cost-h">What the list costs</h2>
      </div>
      <Table caption="Cost of both ways to list tools" columns={COST_COLUMNS}>
        <tbody>
          {(['list', 'search'] as const).map((discovery) => (
            <tr key={discovery}>
              <th scope="row">
                <span className="row">
                  {discovery === 'list' ? 'Whole list' : 'Search'}
                  {cost.discovery === discovery && <Tag>now</Tag>}
                </span>
              </th>
              <td className="num end">
                {formatCount(cost[discovery].tools)}
                <span className="narrow-unit"> tools</span>
              </td>
              <td className="num end">{formatBytes(cost[discovery].bytes)}</td>
              <td className="num end">
                about {formatCount(rounded(cost[discovery].tokens))}
                <span className="narrow-unit"> tokens</span>
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
      <p className="meta dim">
        A client that gives all tools to its model sends their names, descriptions and parameters with each
        request. To switch to {other === 'list' ? 'the whole list' : 'search'}, change the config:
      </p>
      <Code text={switchText(other, toolset)} label={`Switch to ${other}`} head="collet.config.json" isJson />
    </section>
  )
}

/** Two digits, because tokens are estimated. */
function rounded(tokens: number): number {
  return Number(tokens.toPrecision(2))
}

function switchText(discovery: 'list' | 'search', toolset: string): string {
  const setting = toolset === '' ? { mcp: { discovery } } : { toolsets: { [toolset]: { discovery } } }
  return JSON.stringify(setting, undefined, 2)
}

interface TrialProps {
  readonly toolset: string
  readonly text: string
  readonly onText: (text: string) => void
}

/** A search as a model makes it, with the answer that the model reads. */
function SearchTrial({ toolset, text, onText }: TrialProps): ReactNode {
  const { data, error } = useQuery(toolSearchQuery(toolset, useDeferredValue(text)))
  return (
    <section aria-labelledby="trial-h">
      <div className="sec-head">
        <h2 id="trial-h">What a search finds</h2>
      </div>
      <SearchInput
        label="Search as a model"
        placeholder="A task in plain words, or the name of a tool"
        value={text}
        onChange={onText}
        onDown={() => undefined}
        onEnter={() => undefined}
      />
      {text.trim() !== '' && data !== undefined && <Answer answer={data} />}
      {text.trim() !== '' && error !== null && <Failed what="The search failed" error={error} />}
    </section>
  )
}

function Answer({ answer: { found, text } }: { readonly answer: ToolSearchAnswer }): ReactNode {
  return (
    <>
      <ol className="found-tools">
        {found.map(({ id, unavailable }) => (
          <li key={id}>
            <Link to="/tools/$id" params={{ id }} className="link">
              <ToolName name={id} />
            </Link>
            {unavailable !== null && (
              <span className="is-parked" dir="auto">
                {' '}
                {visibleText(unavailable)}
              </span>
            )}
          </li>
        ))}
      </ol>
      <Code text={text} label="Answer of search_tools" />
    </>
  )
}

const TOOL_COLUMNS = [
  { title: 'Tool' },
  { title: 'Size', className: 'c-n', isEnd: true },
  { title: 'Tokens', className: 'c-n', isEnd: true },
  { title: 'Share', className: 'c-n', isEnd: true },
] as const

const MAX_SHOWN = 20

function Expensive({ cost: { each, list } }: { readonly cost: ToolListCost }): ReactNode {
  if (each.length === 0) return null
  return (
    <section aria-labelledby="each-h">
      <div className="sec-head">
        <h2 id="each-h">The most expensive tools</h2>
      </div>
      <Table caption="The most expensive tools" columns={TOOL_COLUMNS}>
        <tbody>
          {each.slice(0, MAX_SHOWN).map(({ id, bytes, tokens }) => (
            <tr key={id}>
              <th scope="row" className="clip">
                <Link to="/tools/$id" params={{ id }} className="link">
                  <ToolName name={id} />
                </Link>
              </th>
              <td className="num end">{formatBytes(bytes)}</td>
              <td className="num end">
                {formatCount(tokens)}
                <span className="narrow-unit"> tokens</span>
              </td>
              <td className="num end soft">{((100 * tokens) / list.tokens).toFixed(1)} %</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </section>
  )
}
