import type { Nodes, RootContent } from 'mdast'
import { fromMarkdown } from 'mdast-util-from-markdown'
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table'
import { gfmTable } from 'micromark-extension-gfm-table'
import { type ReactNode, useMemo, useState } from 'react'
import { Icon } from '../icon.tsx'
import { visibleText } from '../visible-text.ts'
import './markdown.css'
import { WORDS } from './words.tsx'

/**
 * Shows descriptions that others wrote as Markdown, with GitHub's tables and alerts. Pages that show such texts load it. Invariant:
 * only elements that this module draws reach the page: HTML stays text, an image is only its name, a link leads to http or https, shows
 * its host, and tells the other side nothing about this page.
 */

/** A longer text is folded. */
const FOLDED_LINES = 6
/** Longer texts are shown as they are, because parsing them takes too long. */
const MAX_LENGTH = 100_000
const MAX_DEPTH = 12

/** The text as Markdown, folded after six lines. */
export function Markdown({ text }: { readonly text: string }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const content = useMemo(() => parse(text), [text])
  const isLong = lineCount(text) > FOLDED_LINES
  return (
    <div className="markdown" dir="auto">
      <div className={isLong && !isOpen ? 'markdown-text folded' : 'markdown-text'}>{content}</div>
      {isLong && (
        <button
          type="button"
          className="plain link meta"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? WORDS.showLess : WORDS.showMore}
        </button>
      )}
    </div>
  )
}

/** How many lines the text fills, about. */
const LINE_LENGTH = 90

function lineCount(text: string): number {
  return text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / LINE_LENGTH)), 0)
}

function parse(text: string): ReactNode {
  if (text.length > MAX_LENGTH) return <pre>{visibleText(text)}</pre>
  const root = fromMarkdown(text, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] })
  return drawAll(root.children, 0)
}

function drawAll(nodes: readonly RootContent[], depth: number): ReactNode {
  // The text never changes in place, so a position identifies a node.
  return nodes.map((node, index) => <Node key={keyOf(node, index)} node={node} depth={depth} />)
}

function keyOf({ position, type }: Nodes, index: number): string {
  return `${type} ${position?.start.offset ?? index}`
}

function Node({ node, depth }: { readonly node: RootContent; readonly depth: number }): ReactNode {
  if (depth > MAX_DEPTH) return '…'
  const inside = (): ReactNode => ('children' in node ? drawAll(node.children, depth + 1) : null)
  switch (node.type) {
    case 'text':
    case 'html':
      return visibleText(node.value)
    case 'paragraph':
      return <p>{inside()}</p>
    // The page has headings of its own: those of a description do not join its outline.
    case 'heading':
      return <p className="strong">{inside()}</p>
    case 'emphasis':
      return <em>{inside()}</em>
    case 'strong':
      return <strong>{inside()}</strong>
    case 'inlineCode':
      return <code>{visibleText(node.value)}</code>
    case 'code':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
        <pre tabIndex={0}>{visibleText(node.value)}</pre>
      )
    case 'break':
      return <br />
    case 'thematicBreak':
      return <hr />
    case 'list':
      return node.ordered === true ? <ol start={node.start ?? 1}>{inside()}</ol> : <ul>{inside()}</ul>
    case 'listItem':
      return <li>{inside()}</li>
    case 'link':
      return <SafeLink url={node.url}>{inside()}</SafeLink>
    case 'image':
      return <span className="soft">[{visibleText(node.alt === '' ? 'image' : (node.alt ?? 'image'))}]</span>
    case 'blockquote':
      return <Quote nodes={node.children} depth={depth} />
    case 'table':
      return (
        <div className="markdown-table">
          <table>
            <tbody>{inside()}</tbody>
          </table>
        </div>
      )
    case 'tableRow':
      return <tr>{inside()}</tr>
    case 'tableCell':
      return <td>{inside()}</td>
    case 'linkReference':
      return <span>{inside()}</span>
    default:
      return null
  }
}

/** A link is followed only to http and https. Its host is named where the text does not name it. */
function SafeLink({ url, children }: { readonly url: string; readonly children: ReactNode }): ReactNode {
  const address = URL.parse(url)
  if (address === null || !['http:', 'https:'].includes(address.protocol) || address.username !== '')
    return <span>{children}</span>
  return (
    <a className="link" href={address.href} target="_blank" rel="noreferrer noopener nofollow">
      {children}
      <span className="dim"> ({visibleText(address.host)})</span>
    </a>
  )
}

const ALERTS = {
  NOTE: { word: WORDS.note, icon: 'eye' },
  TIP: { word: WORDS.tip, icon: 'eye' },
  IMPORTANT: { word: WORDS.important, icon: 'alert' },
  WARNING: { word: WORDS.warning, icon: 'alert' },
  CAUTION: { word: WORDS.caution, icon: 'alert' },
} as const

interface QuoteProps {
  readonly nodes: Extract<RootContent, { type: 'blockquote' }>['children']
  readonly depth: number
}

/** A quotation, or one of GitHub's alerts: a quotation that begins with `[!NOTE]`. */
function Quote({ nodes, depth }: QuoteProps): ReactNode {
  const [first, ...rest] = nodes
  const start = first?.type === 'paragraph' ? first.children[0] : undefined
  const [whole = '', name = ''] = (start?.type === 'text' && /^\[!(\w+)\]\s*/.exec(start.value)) || []
  const alert = Object.entries(ALERTS).find(([key]) => key === name.toUpperCase())?.[1]
  if (alert === undefined || first?.type !== 'paragraph' || start?.type !== 'text')
    return <blockquote>{drawAll(nodes, depth + 1)}</blockquote>
  const opening: RootContent = {
    ...first,
    children: [{ ...start, value: start.value.slice(whole.length) }, ...first.children.slice(1)],
  }
  return (
    <div className="markdown-alert" role="note">
      <p className="row strong">
        <Icon name={alert.icon} size={14} />
        {alert.word}
      </p>
      {drawAll([opening, ...rest], depth + 1)}
    </div>
  )
}
