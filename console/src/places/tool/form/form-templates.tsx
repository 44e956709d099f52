import {
  ADDITIONAL_PROPERTY_FLAG,
  type ArrayFieldItemTemplateProps,
  type ArrayFieldTemplateProps,
  canExpand,
  type FieldTemplateProps,
  type MultiSchemaFieldTemplateProps,
  type ObjectFieldTemplateProps,
  type RJSFSchema,
  type TemplatesType,
} from '@rjsf/utils'
import { type ReactNode, useEffect, useState } from 'react'
import { Button, IconButton } from '../../../parts/button.tsx'
import { TextInput } from '../../../parts/field.tsx'
import { countOf } from '../../../parts/format.ts'
import { Icon } from '../../../parts/icon.tsx'
import { visibleText } from '../../../parts/visible-text.ts'
import { isRecord } from '../tool-data.ts'
import { WORDS } from '../words.tsx'
import { errorId, errorOf, hintId } from './field-ids.ts'
import { BRANCH } from './form-schema.ts'
import { BaseInput } from './form-widgets.tsx'

/*
 * The frames of form fields: label, facts, messages, and members with free names. `input-form.tsx` uses it.
 */

/** Label, control, facts from the schema, and the server's message. */
function FieldFrame(props: FieldTemplateProps): ReactNode {
  useConstants(props)
  const { id, fieldPathId, schema, required, children, hidden, displayLabel, rawDescription, registry } =
    props
  if (hidden === true) return <div hidden>{children}</div>
  const error = errorOf(id, registry.formContext)
  const isGroup = isGroupOf(schema) || isChoice(schema)
  const isBranch = schema[BRANCH] === true
  const name = nameOf(fieldPathId.path)
  const isRequired = required === true && !isBranch && typeof fieldPathId.path.at(-1) === 'string'
  // A choice has the label, and its value is described below it.
  const hasLabel = isChoice(schema) ? name !== '' : displayLabel === true && !isGroup
  return (
    <div className={error === undefined ? 'field' : 'field bad'}>
      {hasLabel && (
        <label htmlFor={isChoice(schema) ? choiceId(id, schema) : id} className={isBranch ? 'vh' : undefined}>
          <code>{isBranch ? `${name}, ${visibleText(schema.title ?? '')}` : name}</code>
          {isRequired && <span className="dim"> {WORDS.required}</span>}
        </label>
      )}
      <Extra {...props}>{children}</Extra>
      {rawDescription !== undefined && rawDescription !== '' && !isGroup && !isBranch && (
        <span className="hint" dir="auto" id={hintId(id)}>
          {visibleText(rawDescription)}
        </span>
      )}
      {error !== undefined && !isBranch && (
        <span className="err" id={errorId(id)} role="alert">
          <Icon name="alert" size={12} />
          {visibleText(error)}
        </span>
      )}
    </div>
  )
}

/** Fills in an object's constants once another member has a value. */
function useConstants({ schema, formData, onChange, fieldPathId, id }: FieldTemplateProps): void {
  const fixed = fixedMembers(schema, formData)
  useEffect(() => {
    if (fixed !== undefined) onChange({ ...formData, ...JSON.parse(fixed) }, fieldPathId.path, undefined, id)
  }, [fixed, formData, onChange, fieldPathId.path, id])
}

/** The missing constants as JSON, which React compares by value. */
function fixedMembers({ properties, required }: RJSFSchema, value: unknown): string | undefined {
  if (!isRecord(value) || properties === undefined || Object.keys(withoutGaps(value)).length === 0)
    return undefined
  const missing = Object.entries(properties).flatMap(([name, member]) =>
    isRecord(member) &&
    member.const !== undefined &&
    value[name] === undefined &&
    required?.includes(name) === true
      ? [[name, member.const]]
      : [],
  )
  return missing.length === 0 ? undefined : JSON.stringify(Object.fromEntries(missing))
}

function withoutGaps(value: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined))
}

function isChoice(schema: RJSFSchema): boolean {
  const branches = schema.anyOf ?? schema.oneOf
  return branches !== undefined && !branches.every((branch) => isRecord(branch) && 'const' in branch)
}

function choiceId(id: string, schema: RJSFSchema): string {
  return `${id}${schema.oneOf === undefined ? '__anyof_select' : '__oneof_select'}`
}

function isGroupOf({ type }: RJSFSchema): boolean {
  return type === 'object' || type === 'array'
}

function nameOf(path: readonly (string | number)[]): string {
  const last = path.at(-1)
  return typeof last === 'number' ? `${last + 1}.` : visibleText(last ?? '')
}

/** A member with a free name has a field for the name, and can be removed. */
function Extra(props: FieldTemplateProps): ReactNode {
  const { id, schema, label, onKeyRenameBlur, onRemoveProperty, children } = props
  if (!(ADDITIONAL_PROPERTY_FLAG in schema)) return children
  return (
    <div className="extra-member">
      <TextInput
        isMono
        key={label}
        aria-label={WORDS.name(visibleText(label))}
        id={`${id}-name`}
        defaultValue={label}
        onBlur={onKeyRenameBlur}
      />
      {children}
      <IconButton icon="close" label={WORDS.remove(visibleText(label))} onClick={() => onRemoveProperty()} />
    </div>
  )
}

/** With more optional fields than this, the empty ones are folded. */
const MANY = 12

function ObjectFields(props: ObjectFieldTemplateProps): ReactNode {
  const { properties, schema, uiSchema, formData, fieldPathId, onAddProperty, registry } = props
  const [isOpen, setOpen] = useState(false)
  const isRoot = fieldPathId.path.length === 0
  if (properties.length === 0 && isChoice(schema) && schema.properties === undefined) return null
  const isNeeded = (name: string): boolean =>
    schema.required?.includes(name) === true ||
    (isRecord(formData) && formData[name] !== undefined) ||
    [...registry.formContext.errors.keys()].some((path) => path.split('/')[fieldPathId.path.length] === name)
  const optional = properties.filter(({ name }) => !isNeeded(name))
  const isFolded = !isOpen && optional.length > MANY
  const shown = isFolded ? properties.filter(({ name }) => isNeeded(name)) : properties
  const fields = (
    <>
      {shown.map(({ name, content }) => (
        <div key={name}>{content}</div>
      ))}
      {isFolded && (
        <Button isSmall icon="down" onClick={() => setOpen(true)}>
          {WORDS.show(countOf(optional.length, WORDS.optionalField))}
        </Button>
      )}
      {canExpand(schema, uiSchema, formData) && (
        <Button isSmall icon="plus" onClick={() => onAddProperty()}>
          {WORDS.addMember}
        </Button>
      )}
    </>
  )
  if (isRoot) return <div className="stack-3">{fields}</div>
  return (
    <Group {...props} name={nameOf(fieldPathId.path)}>
      {fields}
    </Group>
  )
}

function ArrayItems(props: ArrayFieldTemplateProps): ReactNode {
  const { items, canAdd, onAddClick, fieldPathId } = props
  const name = nameOf(fieldPathId.path)
  return (
    <Group {...props} name={name}>
      {items}
      {canAdd === true && (
        <Button isSmall icon="plus" onClick={onAddClick}>
          {WORDS.add(name === '' ? WORDS.list : name)}
        </Button>
      )}
    </Group>
  )
}

interface GroupProps extends Pick<ObjectFieldTemplateProps, 'schema' | 'required'> {
  readonly name: string
  readonly children: ReactNode
}

function Group({ name, schema, required, children }: GroupProps): ReactNode {
  return (
    <fieldset className="field-group">
      <legend className={schema[BRANCH] === true ? 'vh' : 'label'}>
        <code>{name}</code>
        {required === true && !/^\d/.test(name) && <span className="dim"> {WORDS.required}</span>}
      </legend>
      {schema.description !== undefined && (
        <p className="hint" dir="auto">
          {visibleText(schema.description)}
        </p>
      )}
      {children}
    </fieldset>
  )
}

function ArrayItem({ children, buttonsProps, hasToolbar, index }: ArrayFieldItemTemplateProps): ReactNode {
  return (
    <div className="array-item">
      <div className="grow">{children}</div>
      {hasToolbar && buttonsProps.hasRemove && (
        <IconButton
          icon="close"
          label={WORDS.remove2(index + 1)}
          onClick={() => buttonsProps.onRemoveItem()}
        />
      )}
    </div>
  )
}

function Choice({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps): ReactNode {
  return (
    <div className="stack-2">
      {selector}
      {optionSchemaField}
    </div>
  )
}

function Again({ name, onExpand }: { name: string; onExpand: (id: string) => void }): ReactNode {
  return (
    <Button isSmall icon="down" onClick={() => onExpand('')}>
      {WORDS.open(name)}
    </Button>
  )
}

/** Shown by the templates above. */
function Nothing(): ReactNode {
  return null
}

function Unknown(): ReactNode {
  return <p className="hint">{WORDS.thisValueHasNoField}</p>
}

export const TEMPLATES: Partial<TemplatesType> = {
  FieldTemplate: FieldFrame,
  ObjectFieldTemplate: ObjectFields,
  ArrayFieldTemplate: ArrayItems,
  ArrayFieldItemTemplate: ArrayItem,
  MultiSchemaFieldTemplate: Choice,
  BaseInputTemplate: BaseInput,
  CyclicSchemaExpandTemplate: Again,
  DescriptionFieldTemplate: Nothing,
  TitleFieldTemplate: Nothing,
  FieldErrorTemplate: Nothing,
  FieldHelpTemplate: Nothing,
  ErrorListTemplate: Nothing,
  UnsupportedFieldTemplate: Unknown,
}
