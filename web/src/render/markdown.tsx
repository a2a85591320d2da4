// A Markdown renderer that creates elements, never HTML: text from models and files is untrusted. HTML
// in it is shown as source, links lead only to the web or to mail, and nothing is loaded from a network.

import { Lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { escapeHiddenChars } from "./format";
import { memo } from "./memo";
import { CodeBlock } from "./code";

const LINK_SCHEME_RE = /^(https?:|mailto:)/i;
const IMAGE_DATA_URI_RE = /^data:image\/(png|jpe?g|gif|webp|avif);base64,/i;

export function isImageDataUri(uri: string): boolean {
  return IMAGE_DATA_URI_RE.test(uri);
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return <div class="markdown">{new Lexer({ gfm: true, breaks: false }).lex(text).map(renderBlock)}</div>;
});

function renderBlock(token: Token): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return renderHeading(token as Tokens.Heading);
    case "paragraph":
      return <p dir="auto">{renderInline(token.tokens)}</p>;
    case "code":
      return <CodeBlock code={token["text"]} language={(token["lang"] ?? "").split(/\s/, 1)[0]} />;
    case "blockquote":
      return <blockquote>{token.tokens?.map(renderBlock)}</blockquote>;
    case "list":
      return renderList(token as Tokens.List);
    case "table":
      return renderTable(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "text":
      return token.tokens ? renderInline(token.tokens) : unescapeEntities(token["text"]);
    default:
      return <p>{token.raw}</p>;
  }
}

/** Headings inside a message stand below the headings of the page. */
function renderHeading({ depth, tokens }: Tokens.Heading): ComponentChildren {
  const Tag = `h${Math.min(6, depth + 2)}` as "h3";
  return <Tag dir="auto">{renderInline(tokens)}</Tag>;
}

function renderList({ ordered, start, items }: Tokens.List): ComponentChildren {
  const children = items.map((item) => (
    <li class={item.task ? "task" : undefined}>
      {item.task && <span class="tick">{item.checked ? "☑ " : "☐ "}</span>}
      {item.tokens.map((token) => (token.type === "checkbox" ? null : renderBlock(token)))}
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{children}</ol> : <ul>{children}</ul>;
}

function renderTable({ header, rows }: Tokens.Table): ComponentChildren {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell) => (
              <th scope="col" class={cell.align ?? undefined}>
                {renderInline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td class={cell.align ?? undefined}>{renderInline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function renderInline(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((token): ComponentChildren => {
    switch (token.type) {
      case "strong":
        return <strong>{renderInline(token.tokens)}</strong>;
      case "em":
        return <em>{renderInline(token.tokens)}</em>;
      case "del":
        return <del>{renderInline(token.tokens)}</del>;
      case "codespan":
        return <code>{unescapeEntities(token["text"])}</code>;
      case "br":
        return <br />;
      case "link":
        return renderLink(token["href"], renderInline(token.tokens), escapeHiddenChars(token["text"] ?? ""));
      case "image":
        return renderImage(token["href"], token["text"]);
      case "escape":
        return unescapeEntities(token["text"]);
      case "text":
        return token.tokens ? renderInline(token.tokens) : unescapeEntities(token["text"]);
      default:
        return token.raw;
    }
  });
}

/** Looks like an address: `example.org`, `http://…`. */
const ADDRESS_RE = /(?:https?:\/\/)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,}|\d+\.\d+\.\d+\.\d+|localhost)/giu;

/** The host that a link leads to, where its text names another one. */
export function findMisnamedHost(href: string, label: string): string {
  const host = URL.canParse(href) ? new URL(href).hostname : "";
  const named = [...label.matchAll(ADDRESS_RE)].map((found) => (found[1] ?? "").toLowerCase());
  return host && named.some((name) => name !== host && `www.${name}` !== host) ? host : "";
}

function renderLink(href: string, children: ComponentChildren, label: string): JSX.Element {
  if (!LINK_SCHEME_RE.test(href)) return <span title={href}>{children}</span>;
  const host = findMisnamedHost(href, label);
  return (
    <>
      <a href={href} title={href} target="_blank" rel="noopener noreferrer">
        {children}
      </a>
      {host && <span class="left-out"> ({host})</span>}
    </>
  );
}

function renderImage(uri: string, alt: string): JSX.Element {
  if (isImageDataUri(uri)) return <img src={uri} alt={alt} />;
  return <span class="left-out">[image not loaded: {alt || uri}]</span>;
}

const HTML_ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&nbsp;": "\u00a0",
};

function unescapeEntities(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (entity) => HTML_ENTITIES[entity] ?? entity);
}
