import {
  Menu as AriaMenu,
  MenuButton,
  MenuItem,
  MenuItemCheck,
  MenuItemCheckbox,
  MenuProvider,
} from '@ariakit/react'
import { type KeyboardEvent, memo, type ReactNode } from 'react'
import { Icon, type IconName } from './icon.tsx'
import { WORDS } from './words.tsx'

/*
 * A menu of actions, and a filter that is a menu of checkboxes. Used by several pages.
 */

/** Actions behind one button. */
export function Menu({ label, icon, items, className = 'btn', hasArrow = true }: MenuProps): ReactNode {
  return (
    <MenuProvider>
      <MenuButton className={className}>
        {icon !== undefined && <Icon name={icon} size={14} />}
        {label}
        {hasArrow && <Icon name="down" size={12} />}
      </MenuButton>
      <AriaMenu className="menu" gutter={4} fixed unmountOnHide>
        {items.map(({ label: text, onChoose, icon: drawing }) => (
          <MenuItem key={text} className="menu-item" onClick={onChoose}>
            {drawing !== undefined && <Icon name={drawing} size={14} />}
            {text}
          </MenuItem>
        ))}
      </AriaMenu>
    </MenuProvider>
  )
}

interface MenuProps {
  readonly label: ReactNode
  readonly icon?: IconName
  readonly items: readonly MenuChoice[]
  readonly className?: string
  readonly hasArrow?: boolean
}

export interface MenuChoice {
  readonly label: string
  readonly icon?: IconName
  readonly onChoose: () => void
}

/** One filter of a list: a dashed button if not set, a solid button with its values if set. Its cross or Backspace clears it. */
export const Filter = memo(function Filter(props: FilterProps): ReactNode {
  const { label, options, labelOf, values, onChange } = props
  const isSet = values.length > 0
  return (
    <MenuProvider values={{ chosen: [...values] }} setValues={({ chosen }) => onChange(chosen ?? [])}>
      <span className="filter-set">
        <MenuButton
          className={isSet ? 'filter set' : 'filter'}
          onKeyDown={(event: KeyboardEvent) => {
            if (event.key === 'Backspace' && isSet) onChange([])
          }}
        >
          {label}
          {isSet ? <b>{values.map(labelOf).join(', ')}</b> : <Icon name="down" size={12} />}
        </MenuButton>
        {isSet && (
          <button
            type="button"
            className="filter-clear"
            aria-label={WORDS.clear(label)}
            title={WORDS.clear(label)}
            onClick={() => onChange([])}
          >
            <Icon name="close" size={12} />
          </button>
        )}
      </span>
      <AriaMenu className="menu" gutter={4} fixed unmountOnHide>
        <FilterOptions options={options} labelOf={labelOf} />
      </AriaMenu>
    </MenuProvider>
  )
})

/** Rendered only while the menu is open, because counting can take a while. */
function FilterOptions({ options, labelOf }: Pick<FilterProps, 'options' | 'labelOf'>): ReactNode {
  return options().map((option) => (
    <MenuItemCheckbox key={option.value} className="menu-item" name="chosen" value={option.value}>
      <MenuItemCheck className="menu-check">
        <Icon name="check" size={12} />
      </MenuItemCheck>
      <span className="grow">{labelOf(option.value)}</span>
      {option.count !== undefined && <span className="count">{option.count}</span>}
    </MenuItemCheckbox>
  ))
}

interface FilterProps {
  readonly label: string
  /** Called only while the menu is open. */
  readonly options: () => readonly FilterOption[]
  readonly labelOf: (value: string) => string
  readonly values: readonly string[]
  readonly onChange: (values: readonly string[]) => void
}

export interface FilterOption {
  readonly value: string
  readonly count?: number
}
