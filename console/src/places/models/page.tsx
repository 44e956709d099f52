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
import { WORDS } from './words.tsx'

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
      title={WORDS.whatModelsSee}
      before={
        <nav className="crumb" aria-label={WORDS.breadcrumb}>
          <Link to="/tools">{WORDS.tools}</Link>
          <span aria-hidden="true">/</span>
        </nav>
      }
      actions={
        toolsets.length > 0 && (
          <Select
            aria-label={WORDS.toolset}
            value={toolset}
            onChange={({ currentTarget: { value } }) => change({ toolset: value }, { isStep: true })}
            options={[
              { value: '', label: WORDS.allTools },
              ...toolsets.map(({ name }) => ({ value: name, label: WORDS.toolset2(name) })),
            ]}
          />
        )
      }
    >
      <div className="models">
        {cost.data !== undefined && <Costs cost={cost.data} toolset={toolset} />}
        <SearchTrial toolset={toolset} text={q} onText={(text) => void change({ q: text })} />
        {cost.data !== undefined && <Expensive cost={cost.data} />}
        {cost.data === undefined && cost.error === null && <Loading what={WORDS.costs} rows={4} />}
        {cost.data === undefined && cost.error !== null && (
          <Failed what={WORDS.costCouldNotBeRead} error={cost.error} onRetry={() => void cost.refetch()} />
        )}
      </div>
    </Page>
  )
}

const COST_COLUMNS = [
  { title: WORDS.discovery },
  { title: WORDS.toolsListed, className: 'c-n', isEnd: true },
  { title: WORDS.size, className: 'c-n', isEnd: true },
  { title: WORDS.tokens, className: 'c-n', isEnd: true },
] as const

function Costs({ cost, toolset }: { readonly cost: ToolListCost; readonly toolset: string }): ReactNode {
  const other = cost.discovery === 'list' ? 'search' : 'list'
  return (
    <section aria-labelledby="cost-h">
      <div className="sec-head">
        <h2 id="cost-h">{WORDS.whatListCosts}</h2>
      </div>
      <Table caption={WORDS.costBothWaysListTools} columns={COST_COLUMNS}>
        <tbody>
          {(['list', 'search'] as const).map((discovery) => (
            <tr key={discovery}>
              <th scope="row">
                <span className="row">
                  {discovery === 'list' ? WORDS.wholeList : WORDS.search}
                  {cost.discovery === discovery && <Tag>{WORDS.now}</Tag>}
                </span>
              </th>
              <td className="num end">
                {formatCount(cost[discovery].tools)}
                <span className="narrow-unit"> {WORDS.toolsUnit}</span>
              </td>
              <td className="num end">{formatBytes(cost[discovery].bytes)}</td>
              <td className="num end">
                {WORDS.about(formatCount(rounded(cost[discovery].tokens)))}
                <span className="narrow-unit"> {WORDS.tokensUnit}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
      <p className="meta dim">
        {WORDS.switchExplained(other === 'list' ? WORDS.theWholeList : WORDS.searchUnit)}
      </p>
      <Code
        text={switchText(other, toolset)}
        label={WORDS.switch(other)}
        head={WORDS.colletConfigJson}
        isJson
      />
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
        <h2 id="trial-h">{WORDS.whatSearchFinds}</h2>
      </div>
      <SearchInput
        label={WORDS.searchAsModel}
        placeholder={WORDS.taskInPlainWordsOr}
        value={text}
        onChange={onText}
        onDown={() => undefined}
        onEnter={() => undefined}
      />
      {text.trim() !== '' && data !== undefined && <Answer answer={data} />}
      {text.trim() !== '' && error !== null && <Failed what={WORDS.searchFailed} error={error} />}
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
      <Code text={text} label={WORDS.answerSearchTools} />
    </>
  )
}

const TOOL_COLUMNS = [
  { title: WORDS.tool },
  { title: WORDS.size, className: 'c-n', isEnd: true },
  { title: WORDS.tokens, className: 'c-n', isEnd: true },
  { title: WORDS.share, className: 'c-n', isEnd: true },
] as const

const MAX_SHOWN = 20

function Expensive({ cost: { each, list } }: { readonly cost: ToolListCost }): ReactNode {
  if (each.length === 0) return null
  return (
    <section aria-labelledby="each-h">
      <div className="sec-head">
        <h2 id="each-h">{WORDS.mostExpensiveTools}</h2>
      </div>
      <Table caption={WORDS.mostExpensiveTools} columns={TOOL_COLUMNS}>
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
                <span className="narrow-unit"> {WORDS.tokensUnit}</span>
              </td>
              <td className="num end soft">{((100 * tokens) / list.tokens).toFixed(1)} %</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </section>
  )
}
