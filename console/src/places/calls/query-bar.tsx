import { Combobox, ComboboxItem, ComboboxPopover, ComboboxProvider } from '@ariakit/react'
import { useQuery } from '@tanstack/react-query'
import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from 'react'
import { toolsQuery } from '../../api/tools.ts'
import { Icon } from '../../parts/icon.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { finished, isQuoteOpen, splitWords, suggestionsFor, type Token } from './query.ts'
import { words } from './words.ts'

/**
 * The filter of calls, `status:error tool:Gmail.*`. Each complete word is a token with a cross. The word that is being typed has
 * suggestions below it.
 */
export function QueryBar({ tokens, onChange }: QueryBarProps): ReactNode {
  const [word, setWord] = useState('')
  const [isOpen, setOpen] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const problems = useId()
  const { data } = useQuery({ ...toolsQuery, enabled: word.startsWith('tool:'), retry: false })
  const suggestions = suggestionsFor(word, { tools: data?.listing.tools.map(({ id }) => id) ?? [] })
  const texts = tokens.map(({ text }) => text)

  const put = (done: string): void => {
    onChange([...texts, ...splitWords(done).map(finished)])
    setWord('')
    setOpen(false)
  }
  /** After a key, a value must still be typed; other suggestions are complete. */
  const choose = (text: string): void => {
    if (text.endsWith(':')) setWord(text)
    else put(text)
    input.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>): void => {
    if (event.key === 'Backspace' && word === '' && texts.length > 0) {
      // Edits the last token again.
      event.preventDefault()
      setWord(texts.at(-1) ?? '')
      onChange(texts.slice(0, -1))
    } else if (event.key === 'Enter' && !event.currentTarget.hasAttribute('aria-activedescendant')) {
      // No suggestion is selected.
      event.preventDefault()
      put(word)
    } else if (event.key === 'Escape' && !isOpen) {
      if (word === '') event.currentTarget.blur()
      setWord('')
    }
  }
  return (
    <form className="query grow" role="search" onSubmit={(event) => event.preventDefault()}>
      <Icon name="search" />
      {tokens.map((token, index) => (
        <TokenChip
          // biome-ignore lint/suspicious/noArrayIndexKey: a word may occur twice.
          key={`${index} ${token.text}`}
          token={token}
          onRemove={() => {
            onChange(texts.filter((_, at) => at !== index))
            input.current?.focus()
          }}
        />
      ))}
      <ComboboxProvider
        value={word}
        setValue={(value) => (/\s$/.test(value) && !isQuoteOpen(value) ? put(value) : setWord(value))}
        open={isOpen && suggestions.length > 0}
        setOpen={setOpen}
        setSelectedValue={(value) => {
          if (typeof value === 'string') choose(value)
        }}
      >
        <Combobox
          ref={input}
          aria-label={words.filterCalls}
          aria-describedby={problems}
          placeholder={tokens.length === 0 ? words.searchExample : ''}
          spellCheck={false}
          autoComplete="list"
          data-page-search=""
          onKeyDown={onKeyDown}
        />
        <ComboboxPopover className="menu suggestions" gutter={8} unmountOnHide>
          {suggestions.map(({ text, about }) => (
            <ComboboxItem
              key={text}
              className="menu-item"
              value={text}
              setValueOnClick={false}
              hideOnClick={!text.endsWith(':')}
            >
              <code>{text}</code>
              <span className="dim">{about}</span>
            </ComboboxItem>
          ))}
        </ComboboxPopover>
      </ComboboxProvider>
      <kbd>/</kbd>
      <span id={problems} className="vh">
        {visibleText(tokens.map(({ problem }) => problem).join(' '))}
      </span>
    </form>
  )
}

interface QueryBarProps {
  readonly tokens: readonly Token[]
  readonly onChange: (words: readonly string[]) => void
}

function TokenChip({ token, onRemove }: { readonly token: Token; readonly onRemove: () => void }): ReactNode {
  const { key, problem } = token
  const value = visibleText(token.value)
  return (
    <span
      className={problem === undefined ? 'tok' : 'tok bad'}
      title={problem === undefined ? undefined : visibleText(problem)}
    >
      <b>{key}</b>
      <span className="clip">{value}</span>
      <button type="button" aria-label={`Remove ${key} ${value}`} onClick={onRemove}>
        <Icon name="close" size={12} />
      </button>
    </span>
  )
}
